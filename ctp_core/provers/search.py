"""Finding the n best proofs of a goal, best first, when the best score of every sub-goal is already in a table.

The tables make a perfect estimate of what an unfinished proof can still become, so that best-first search walks
straight to the best proof, then to the next. A goal never repeats on the way from its root.
"""

import heapq
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

MAX_POPS = 20_000  # unfinished proofs looked at; a bound for cyclic graphs with many equal proofs

PRECISION = 1 << 34

SubGoal = Any  # what a Space uses to name a sub-goal; hashable


class Fold(ABC):
    """⊗ on plain numbers, in a form that can be extended: total of what is closed, with a weight for what is open."""

    start: float

    @abstractmethod
    def join(self, total: float, value: float, weight: float) -> float: ...

    @abstractmethod
    def combine(self, closed: float, rest: float) -> float: ...

    def weights(self, count: int, weight: float) -> list[float]:
        """Of `count` parts of a proof that itself has `weight`."""
        return [weight] * count

    def of(self, scores: Sequence[float]) -> float:
        total = self.start
        for score, weight in zip(scores, self.weights(len(scores), 1.0), strict=True):
            total = self.join(total, score, weight)
        return total


class ProductFold(Fold):
    start = 1.0

    def join(self, total: float, value: float, weight: float) -> float:
        del weight
        return total * value

    def combine(self, closed: float, rest: float) -> float:
        return closed * rest


class MinFold(Fold):
    start = 1.0

    def join(self, total: float, value: float, weight: float) -> float:
        del weight
        return min(total, value)

    def combine(self, closed: float, rest: float) -> float:
        return min(closed, rest)


class MeanFold(Fold):
    """The left fold of pairwise means is a weighted sum: the first two parts weigh least and equally."""

    start = 0.0

    def join(self, total: float, value: float, weight: float) -> float:
        return total + weight * value

    def combine(self, closed: float, rest: float) -> float:
        return closed + rest

    def weights(self, count: int, weight: float) -> list[float]:
        return [weight * 0.5 ** (count - max(1, place)) for place in range(count)]


FOLDS: dict[str, Fold] = {"max-product": ProductFold(), "max-min": MinFold(), "max-mean": MeanFold()}


@dataclass(frozen=True)
class Move:
    """One way to prove a goal: the scores of its own unifications, then the sub-goals that remain."""

    value: float  # ⊗ of the scores and of the best that the sub-goals can do
    scores: tuple[float, ...]
    subgoals: tuple[SubGoal, ...]
    note: Any  # for whoever writes the proof down
    rank: int = 0  # among moves of equal value the lower one is tried first


class Space(ABC):
    """The proofs of one chart. `cyclic`: a goal might come up again below itself."""

    cyclic: bool

    def identity(self, goal: SubGoal) -> SubGoal:
        """Equal for what counts as the same goal at whatever depth."""
        return goal

    @abstractmethod
    def best(self, goal: SubGoal) -> float:
        """The score of its best proof."""

    @abstractmethod
    def moves(self, goal: SubGoal) -> Sequence[Move]:
        """Best first; those that cannot succeed are left out."""


@dataclass(frozen=True)
class Derivation:
    """A finished proof."""

    goal: SubGoal
    move: Move
    children: tuple["Derivation", ...]


class _Open(NamedTuple):
    """Goals still to be proved, first one on top; `bound` is the best that all of them together can do."""

    goal: SubGoal
    weight: float
    ancestors: frozenset[SubGoal]
    rest: "_Open | None"
    bound: float


class _Taken(NamedTuple):
    goal: SubGoal
    move: Move
    before: "_Taken | None"


class _State(NamedTuple):
    closed: float
    open: _Open
    taken: _Taken | None


class Search:
    """Best-first over unfinished proofs. Siblings wait until the one before them was taken."""

    def __init__(self, space: Space, fold: Fold, expired: Callable[[], bool]) -> None:
        self.space, self.fold, self.expired = space, fold, expired
        self.truncated = False
        self._heap: list[tuple[float, int, _State, int]] = []
        # Among equal promises the newest goes first: with min most are equal, and only depth ends a proof.
        self._counter = itertools.count(0, -1)

    def proofs(self, goal: SubGoal) -> Iterator[Derivation]:
        """In order of their scores; ends early, and says so in `truncated`, where the budget does."""
        self._push(_State(self.fold.start, _Open(goal, 1.0, frozenset(), None, self.space.best(goal)), None), 0)
        for _ in range(MAX_POPS):
            if not self._heap:
                return
            if self.expired():
                break
            _, _, state, index = heapq.heappop(self._heap)
            self._push(state, index + 1)
            move = self.space.moves(state.open.goal)[index]
            if self.space.cyclic and self._repeats(state.open, move):
                continue
            taken = _Taken(state.open.goal, move, state.taken)
            closed, remaining = self._take(state, move)
            if remaining is None:
                yield _derivation(taken)
            else:
                self._push(_State(closed, remaining, taken), 0)
        self.truncated = True

    def _repeats(self, top: _Open, move: Move) -> bool:
        above = top.ancestors | {self.space.identity(top.goal)}
        return any(self.space.identity(goal) in above for goal in move.subgoals)

    def _push(self, state: _State, index: int) -> None:
        moves = self.space.moves(state.open.goal)
        if index < len(moves):
            closed, remaining = self._take(state, moves[index])
            promise = closed if remaining is None else self.fold.combine(closed, remaining.bound)
            heapq.heappush(self._heap, (-_rounded(promise), next(self._counter), state, index))

    def _take(self, state: _State, move: Move) -> tuple[float, _Open | None]:
        """What is closed and what is open once the first open goal is proved by this move."""
        top, closed = state.open, state.closed
        weights = self.fold.weights(len(move.scores) + len(move.subgoals), top.weight)
        for score, weight in zip(move.scores, weights, strict=False):
            closed = self.fold.join(closed, score, weight)
        remaining = top.rest
        ancestors = top.ancestors | {self.space.identity(top.goal)} if self.space.cyclic else top.ancestors
        for goal, weight in zip(reversed(move.subgoals), reversed(weights), strict=False):
            bound = self.fold.start if remaining is None else remaining.bound
            bound = self.fold.join(bound, self.space.best(goal), weight)
            remaining = _Open(goal, weight, ancestors, remaining, bound)
        return closed, remaining


def _rounded(promise: float) -> float:
    """To about ten digits: the same product in another order must not send the search back to its start."""
    mantissa, exponent = math.frexp(promise)
    return math.ldexp(round(mantissa * PRECISION) / PRECISION, exponent)


def _derivation(taken: _Taken) -> Derivation:
    """The tree from the moves in the order in which they were taken: each goal, then its sub-goals, left to right."""
    steps: list[_Taken] = []
    at: _Taken | None = taken
    while at is not None:
        steps.append(at)
        at = at.before
    built: list[Derivation] = []
    for goal, move, _ in steps:  # last one first: its sub-goals are already on the stack, leftmost on top
        children = tuple(built.pop() for _ in move.subgoals)
        built.append(Derivation(goal, move, children))
    return built[0]
