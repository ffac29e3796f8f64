"""Plans a search by successive halving (Jamieson & Talwalkar 2016). Plain Python, as forecasts read it.

Many candidates are tried at a small share of their full effort, the best third of them at three times that share,
until one is left. All of it is counted in forecast work, so that a plan is the same on every machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ctp_core.base.config import BaseConfig

KEPT = 3  # one candidate in so many goes on to the next rung, at so many times the effort
FIRST_SHARES = (1 / 3, 1 / 6, 1 / 9)  # of the full effort, on the first rung: the largest that can be paid
SEARCH_SHARE = 1 / 3  # of the budget; the rest is for the training with the settings that were chosen

Config = TypeVar("Config", bound=BaseConfig)


@dataclass(frozen=True)
class Rung:
    """`size` candidates are tried, each at this share of its full effort."""

    size: int
    share: float


FULL = (Rung(1, 1.0),)


@dataclass(frozen=True)
class Space(Generic[Config]):
    """What is searched. Candidates are at full effort and search nothing; the most promising come first."""

    candidates: Sequence[Config]
    at_effort: Callable[[Config, float], Config]
    cost: Callable[[Config], float]  # forecast CPU seconds
    budget: float  # of the search and of the training with what it chooses, in the same seconds

    def trial_cost(self, candidate: int, share: float) -> float:
        return self.cost(self.at_effort(self.candidates[candidate], share))

    def plan(self) -> tuple[Rung, ...]:
        """Returns the rungs that fit the budget: as many candidates as possible, then the largest first share.

        Where it can be paid, the winner is then tried at full effort, which tells whether the full effort overfits.
        Empty where not even two candidates can be compared: the first one is then trained without a search.
        """
        for last, fewest in ((FULL, KEPT), ((), 2)):
            for size in range(len(self.candidates), fewest - 1, -1):
                for share in FIRST_SHARES:
                    rungs = (*_rungs(size, share), *last)
                    if self._most_work(rungs) <= SEARCH_SHARE * self.budget:
                        return rungs
        return ()

    def forecast_search(self) -> float:
        """Returns the most CPU seconds that the trials may take."""
        return self._most_work(self.plan())

    def _most_work(self, rungs: Sequence[Rung]) -> float:
        """The work if on every rung the costliest candidates stayed."""
        total = 0.0
        for rung in rungs:
            costs = sorted((self.trial_cost(one, rung.share) for one in range(rungs[0].size)), reverse=True)
            total += sum(costs[: rung.size])
        return total


def _rungs(size: int, share: float) -> list[Rung]:
    rungs = []
    while size > 1:
        rungs.append(Rung(size, min(1.0, share)))
        size, share = -(-size // KEPT), KEPT * share
    return rungs
