"""How far scores are from probabilities: a reliability table, and the expected calibration error."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

BINS = 10
BEST = 10  # unknown answers of each question that are looked at, however low they are scored
WORTH_SHOWING = 0.1  # answers scored this high are looked at, however many a question has


class Bin(NamedTuple):
    """Answers whose scores lie between two tenths."""

    low: float
    high: float
    answers: float  # how many; not whole where they are weighted
    score: float  # their mean
    true: float  # the share of them that is true


def looked_at(scores: Float[np.ndarray, " answer"], ranks: Int[np.ndarray, " answer"]) -> Bool[np.ndarray, " answer"]:
    """The answers that people see: the BEST of each question (`ranks` from 0), and all that are WORTH_SHOWING."""
    return np.asarray((ranks < BEST) | (scores >= WORTH_SHOWING))


def reliability(
    scores: Float[np.ndarray, " answer"],
    true: Bool[np.ndarray, " answer"],
    weights: Float[np.ndarray, " answer"] | None = None,
) -> list[Bin]:
    """Answers by their scores, in BINS bins of equal width; empty bins are left out."""
    weights = np.ones(len(scores)) if weights is None else weights
    place = np.minimum((scores * BINS).astype(np.int64), BINS - 1)
    counts, sums, found = (
        np.bincount(place, values, minlength=BINS) for values in (weights, weights * scores, weights * true)
    )
    filled = np.flatnonzero(counts > 0).tolist()
    return [
        Bin(at / BINS, (at + 1) / BINS, float(counts[at]), float(sums[at] / counts[at]), float(found[at] / counts[at]))
        for at in filled
    ]


def expected_calibration_error(
    scores: Float[np.ndarray, " answer"],
    true: Bool[np.ndarray, " answer"],
    weights: Float[np.ndarray, " answer"] | None = None,
) -> float:
    """Mean distance between the scores of a bin and the share of its answers that is true; 0 without answers."""
    bins = reliability(scores, true, weights)
    total = sum(one.answers for one in bins)
    return sum(one.answers * abs(one.score - one.true) for one in bins) / total if total else 0.0
