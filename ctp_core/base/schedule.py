"""Learning rates as functions of the step, so that a checkpoint needs no scheduler state."""

import math

WARM_UP = 0.3  # share of the steps in which the rate rises
START_DIVISOR, END_DIVISOR = 25.0, 1e4


def one_cycle(step: int, steps: int, peak: float) -> float:
    """Rises from peak/25 to peak along a cosine, then falls to almost nothing."""
    rise = max(1.0, WARM_UP * steps)
    if step < rise:
        return _cosine(peak / START_DIVISOR, peak, step / rise)
    return _cosine(peak, peak / END_DIVISOR, min(1.0, (step - rise) / max(1.0, steps - rise)))


def constant_then_falling(step: int, steps: int, rate: float, falling: float) -> float:
    """The rate, and in the last `falling` (a share) of the steps a straight line from it to nothing."""
    return rate * min(1.0, (steps - step) / (falling * steps)) if falling else rate


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
