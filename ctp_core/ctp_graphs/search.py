"""Finding the n best proofs of a goal, best first, when the best score of every sub-goal is already in a table.

The tables make a perfect estimate of what an unfinished proof can still become, so that best-first search walks
straight to the best proof, then to the next. A goal never repeats on the way from its root: moves that would repeat
one are passed over, and so no goal may hold back moves of its own because there are better ones.
"""

import heapq
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ctp_core.tnorm import TNorm

MAX_POPS = 40_000  # moves looked at; a bound for cyclic graphs with many equal proofs

PRECISION = 1 << 34

SubGoal = Any  # what a Space uses to name a sub-goal; hashable


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

    def size(self, goal: SubGoal) -> int:
        """About how many moves its best proof takes: where a goal may come up again, small proofs are found sooner.

        Asked only of cyclic spaces to be more than 0.
        """
        del goal
        return 0

    @abstractmethod
    def move(self, goal: SubGoal, index: int) -> Move | None:
        """Its moves, best first, until there are no more; those that cannot succeed are left out."""


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
    size: int  # that the proof will have


class _Entry(NamedTuple):
    """An unfinished proof, and the move to go on with. `exact`: the promise is that move's own, not the one's before.

    Among equal promises the smaller proof goes first, then the newest: with min most are equal, and only depth ends a
    proof.
    """

    promise: float  # negative, for the heap
    size: int
    order: int
    state: _State
    number: int  # of the move
    exact: bool


class Search:
    """Best-first over unfinished proofs. Siblings wait until the one before them was taken."""

    def __init__(self, space: Space, tnorm: TNorm, expired: Callable[[], bool]) -> None:
        self.space, self.tnorm, self.expired = space, tnorm, expired
        self.truncated = False
        self._heap: list[_Entry] = []
        self._counter = itertools.count(0, -1)

    def proofs(self, goal: SubGoal) -> Iterator[Derivation]:
        """In order of their scores; ends early, and says so in `truncated`, where the budget does."""
        best, size = self.space.best(goal), self.space.size(goal)
        self._push(_State(self.tnorm.start, _Open(goal, 1.0, frozenset(), None, best), None, size), 0, best, size)
        tried = 0
        while self._heap:
            if tried == MAX_POPS or self.expired():
                self.truncated = True
                return
            tried += 1
            entry = heapq.heappop(self._heap)
            move = self.space.move(entry.state.open.goal, entry.number)
            if move is None:
                continue
            closed, remaining, size = self._take(entry.state, move)
            promise = closed if remaining is None else self.tnorm.combine(closed, remaining.bound)
            if promise <= 0:
                continue  # parts that are proved may together be no proof, and the moves after this one are no better
            if not entry.exact and (-rounded(promise), size) > entry[:2]:
                self._push(entry.state, entry.number, promise, size, exact=True)
                continue
            # No better than this one; how much worse is looked up when its turn comes, which mostly it does not.
            self._push(entry.state, entry.number + 1, promise, entry.size)
            if self.space.cyclic and self._repeats(entry.state.open, move):
                continue
            taken = _Taken(entry.state.open.goal, move, entry.state.taken)
            if remaining is None:
                yield _derivation(taken)
            else:
                self._push(_State(closed, remaining, taken, size), 0, promise, size)

    def _repeats(self, top: _Open, move: Move) -> bool:
        above = top.ancestors | {self.space.identity(top.goal)}
        return any(self.space.identity(goal) in above for goal in move.subgoals)

    def _push(self, state: _State, index: int, promise: float, size: int, *, exact: bool = False) -> None:
        heapq.heappush(self._heap, _Entry(-rounded(promise), size, next(self._counter), state, index, exact))

    def _take(self, state: _State, move: Move) -> tuple[float, _Open | None, int]:
        """What is closed, what is open and the size, once the first open goal is proved by this move."""
        top, closed = state.open, state.closed
        weights = self.tnorm.weights(len(move.scores) + len(move.subgoals), top.weight)
        for score, weight in zip(move.scores, weights, strict=False):
            closed = self.tnorm.join(closed, score, weight)
        remaining = top.rest
        ancestors = top.ancestors | {self.space.identity(top.goal)} if self.space.cyclic else top.ancestors
        size = state.size - self.space.size(top.goal) + self.space.cyclic
        for goal, weight in zip(reversed(move.subgoals), reversed(weights), strict=False):
            bound = self.tnorm.start if remaining is None else remaining.bound
            bound = self.tnorm.join(bound, self.space.best(goal), weight)
            remaining = _Open(goal, weight, ancestors, remaining, bound)
            size += self.space.size(goal)
        return closed, remaining, size


def rounded(promise: float) -> float:
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
