"""Welch's t-test, with the paper's two marks."""

from collections.abc import Sequence
from statistics import mean, stdev

from scipy import stats

STRONG, WEAK = ("▼", 1e-4), ("▽", 1e-2)


def welch(left: Sequence[float], right: Sequence[float]) -> float | None:
    """The p-value of equal means with unequal variances; None where a side has fewer than two values."""
    if min(len(left), len(right)) < 2:
        return None
    if stdev(left) == stdev(right) == 0:  # no spread at all: the test would divide by 0
        return 1.0 if mean(left) == mean(right) else 0.0
    # From the moments, which Python finds exactly: scipy's own warn where all seeds of one side agree.
    moments = [moment for side in (left, right) for moment in (mean(side), stdev(side), len(side))]
    return float(stats.ttest_ind_from_stats(*moments, equal_var=False).pvalue)


def mark(values: Sequence[float], reference: Sequence[float]) -> str:
    """▼ (▽) where `values` are below the reference with p < 10⁻⁴ (10⁻²)."""
    p = welch(values, reference)
    if p is None or mean(values) >= mean(reference):
        return ""
    return next((sign for sign, level in (STRONG, WEAK) if p < level), "")
