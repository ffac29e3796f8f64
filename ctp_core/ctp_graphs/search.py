"""Finds the n best proofs of a goal, best first, given a table with the best score of every sub-goal.

The tables tell exactly what an unfinished proof can still reach, so best-first search goes straight to the best proof,
then to the next. A goal never repeats below itself: moves that would repeat one are skipped. So every goal must offer
all its moves, not only the best ones.
"""

import heapq
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ctp_core.tnorm.base import TNorm

MAX_POPS = 40_000  # moves tried; bounds the search in cyclic graphs with many equal proofs

PRECISION = 1 << 34

SubGoal = Any  # what a Space uses to name a sub-goal; hashable


@dataclass(frozen=True)
class Move:
    """One way to prove a goal: the scores of its own unifications, then the sub-goals that remain."""

    value: float  # ⊗ of the scores and of the best that the sub-goals can do
    scores: tuple[float, ...]
    subgoals: tuple[SubGoal, ...]
    note: Any  # for the writer of the proof
    rank: int = 0  # among moves of equal value the lower one is tried first


class Space(ABC):
    """The proofs of one chart. `cyclic` says that a goal might occur again below itself."""

    cyclic: bool

    def identity(self, goal: SubGoal) -> SubGoal:
        """A key that is equal for the same goal at different depths."""
        return goal

    @abstractmethod
    def best(self, goal: SubGoal) -> float:
        """The score of its best proof."""

    def size(self, goal: SubGoal) -> int:
        """About how many moves its best proof takes, so that small proofs come first in cyclic spaces.

        Other spaces may return 0.
        """
        del goal
        return 0

    @abstractmethod
    def move(self, goal: SubGoal, index: int) -> Move | None:
        """Its move number `index`, best first, or None after the last; moves that cannot succeed are left out."""


@dataclass(frozen=True)
class Derivation:
    """A finished proof."""

    goal: SubGoal
    move: Move
    children: tuple["Derivation", ...]


class _Open(NamedTuple):
    """A stack of goals still to prove, the next on top; `bound` is the best score of all of them together."""

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
    """An unfinished proof, and the next move to try. `exact`: the promise is of that move, not of the one before it.

    Among equal promises the smaller proof goes first, then the newest: with ⊗ = min most are equal, and only going
    deeper finishes a proof.
    """

    promise: float  # negative, for the heap
    size: int
    order: int
    state: _State
    number: int  # of the move
    exact: bool


class Search:
    """Best-first search over unfinished proofs. A move enters the queue only after the better one before it."""

    def __init__(self, space: Space, tnorm: TNorm, expired: Callable[[], bool]) -> None:
        self.space, self.tnorm, self.expired = space, tnorm, expired
        self.truncated = False
        self._heap: list[_Entry] = []
        self._counter = itertools.count(0, -1)

    def proofs(self, goal: SubGoal) -> Iterator[Derivation]:
        """Yields proofs in order of their scores; sets `truncated` where time or MAX_POPS end the search early."""
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
                continue  # proved parts need not make a proof together, and later moves are no better
            if not entry.exact and (-rounded(promise), size) > entry[:2]:
                self._push(entry.state, entry.number, promise, size, exact=True)
                continue
            # The next move is no better than this one; how much worse is computed only if its turn comes.
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
        """(score of what is closed, open goals, size) after proving the first open goal by this move."""
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
    """Rounds to about ten digits, so that a product in another order does not send the search back."""
    mantissa, exponent = math.frexp(promise)
    return math.ldexp(round(mantissa * PRECISION) / PRECISION, exponent)


def _derivation(taken: _Taken) -> Derivation:
    """Builds the tree from the moves in the order taken: each goal, then its sub-goals, left to right."""
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
