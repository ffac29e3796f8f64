"""How much work a preset may spend on a KB, in seconds of one core. Plain Python, as the API reads it."""

import math

# (training facts, seconds) of preset `fast`; between them the seconds follow a straight line in log-log space.
FAST = ((2e4, 60.0), (1e5, 240.0), (1e6, 900.0), (1e7, 3600.0))
BEST_SECONDS = 900.0
BEST_TIMES_FAST = 4.0


def budget_seconds(preset: str, num_facts: int) -> float:
    """Seconds of one core for a KB with so many training facts; presets other than `best` have the budget of `fast`.

    Below the first point of FAST the budget is constant, beyond the last it grows as it does before it.
    """
    fast = _fast_seconds(num_facts)
    return max(BEST_SECONDS, BEST_TIMES_FAST * fast) if preset == "best" else fast


def _fast_seconds(num_facts: int) -> float:
    if num_facts <= FAST[0][0]:
        return FAST[0][1]
    last = len(FAST) - 2
    segment = next((index for index in range(last) if num_facts <= FAST[index + 1][0]), last)
    (facts, seconds), (more_facts, more_seconds) = FAST[segment], FAST[segment + 1]
    slope = math.log(more_seconds / seconds) / math.log(more_facts / facts)
    return float(seconds * (num_facts / facts) ** slope)
