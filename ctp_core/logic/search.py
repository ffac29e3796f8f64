"""Finds the best bindings of a question: best first, so that each answer is final when it is found.

A partial answer binds the first variables of the plan. Its score is that of the formulas closed so far, and no further
formula can raise it, so that the search may stop once as many answers are complete as are wanted. On a KB with at most
`width` entities nothing is left out; on a larger one, each partial answer is continued with its `width` best
candidates, those that the KB states first.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from ctp_core.base.deadline import Expired, OutOfTime, look
from ctp_core.logic.formula import Variable
from ctp_core.logic.numbered import Bound, Numbers
from ctp_core.logic.plan import Plan, Step
from ctp_core.logic.question import LogicalQuestion
from ctp_core.logic.scores import Formulas, Scores
from ctp_core.logic.truth import Truth

DEFAULT_WIDTH = 1000
MAX_KEPT = 5_000_000  # candidates of all partial answers in memory: 80 MB
LOOK_EVERY = 256  # candidates taken between two looks at the clock


@dataclass(frozen=True)
class Found:
    """A binding of all variables, or of those known when time was over, with its score."""

    entities: tuple[int, ...]  # in the order of the plan
    score: float


@dataclass
class Outcome:
    """`exact`: no candidate was left out. `truncated`: time or memory ended before the search did."""

    found: list[Found] = field(default_factory=list)
    exact: bool = True
    truncated: bool = False


class _Partial(NamedTuple):
    """A partial answer that waits: best first, then the longest one, then the one that was met first."""

    cost: float  # minus its score
    open: int  # variables that are not bound
    number: int
    entities: tuple[int, ...]
    siblings: "_Candidates | None"
    place: int  # among its siblings


@dataclass(frozen=True)
class _Candidates:
    """What one partial answer may be continued with, best first."""

    before: tuple[int, ...]
    entities: Int[np.ndarray, " candidate"]
    scores: Float[np.ndarray, " candidate"]


class Search:
    """The search for the answers to one question."""

    def __init__(
        self, question: LogicalQuestion, plan: Plan, numbers: Numbers, scores: Scores, expired: Expired, width: int
    ) -> None:
        self._question, self._plan, self._numbers, self._expired = question, plan, numbers, expired
        self._scores, self._width = scores, width
        self._truth = Truth.named(question.tnorm)
        self._formulas = Formulas(scores, numbers, self._truth)
        self._variables = tuple(step.variable for step in plan.steps)
        self._selected = [self._variables.index(variable) for variable in question.select]
        self._outcome = Outcome()
        self._waiting: list[_Partial] = []
        self._kept = self._met = 0

    def run(self) -> Outcome:
        """The `top_k` best answers, best first; where it is cut short, those that were found."""
        seen: set[tuple[int, ...]] = set()
        try:
            for found in self._best_first(seen):
                self._outcome.found.append(found)
                if len(self._outcome.found) >= self._question.top_k:
                    return self._outcome
        except OutOfTime:
            self._outcome.truncated = True
            self._take_complete(seen)
        return self._outcome

    def _best_first(self, seen: set[tuple[int, ...]]) -> Iterator[Found]:
        self._begin()
        while self._waiting:
            if self._met % LOOK_EVERY == 0:
                look(self._expired)
            partial = heapq.heappop(self._waiting)
            self._push_sibling(partial)
            if self._known(partial.entities, seen):
                continue
            if not partial.open:
                self._remember(partial.entities, seen)
                yield Found(partial.entities, -partial.cost)
            else:
                try:
                    self._extend(partial)
                except OutOfTime:
                    heapq.heappush(self._waiting, partial._replace(siblings=None))
                    raise

    def _begin(self) -> None:
        score = float(self._formulas.conjunction(self._plan.ground, {})[0])
        if score > 0:
            self._push(-score, (), None, 0)

    def _push(self, cost: float, entities: tuple[int, ...], siblings: "_Candidates | None", place: int) -> None:
        self._met += 1
        left = len(self._variables) - len(entities)
        heapq.heappush(self._waiting, _Partial(cost, left, self._met, entities, siblings, place))

    def _push_sibling(self, partial: _Partial) -> None:
        siblings = partial.siblings
        if siblings is not None and partial.place + 1 < len(siblings.entities):
            self._push_candidate(siblings, partial.place + 1)
        elif siblings is not None:
            self._kept -= len(siblings.entities)

    def _push_candidate(self, siblings: _Candidates, place: int) -> None:
        entities = (*siblings.before, int(siblings.entities[place]))
        self._push(-float(siblings.scores[place]), entities, siblings, place)

    def _known(self, entities: tuple[int, ...], seen: set[tuple[int, ...]]) -> bool:
        """Whether a better answer has the same selected entities."""
        if not self._question.distinct or any(at >= len(entities) for at in self._selected):
            return False
        return tuple(entities[at] for at in self._selected) in seen

    def _remember(self, entities: tuple[int, ...], seen: set[tuple[int, ...]]) -> None:
        seen.add(tuple(entities[at] for at in self._selected))

    def _extend(self, partial: _Partial) -> None:
        step = self._plan.steps[len(partial.entities)]
        bound = dict(zip(self._variables, partial.entities, strict=False))
        scores = self._candidate_scores(step, bound, -partial.cost)
        chosen = self._best_candidates(step, scores)
        if not len(chosen):
            return
        self._kept += len(chosen)
        if self._kept > MAX_KEPT:
            raise OutOfTime
        self._push_candidate(_Candidates(partial.entities, chosen.astype(np.int32), scores[chosen]), 0)

    def _candidate_scores(self, step: Step, bound: Bound, score: float) -> NDArray[np.float64]:
        """The score of the partial answer with each entity."""
        closed = self._formulas.conjunction(step.closed, bound)
        found = np.broadcast_to(self._truth.both(np.full(1, score), closed), (len(self._scores.view.entities),))
        allowed = self._numbers.allowed.get(step.variable)
        return found if allowed is None else np.where(allowed, found, 0.0)

    def _best_candidates(self, step: Step, scores: NDArray[np.float64]) -> Int[np.ndarray, " candidate"]:
        """The candidates with a score above 0, best first; ties by how often the KB has them in that place."""
        possible = np.flatnonzero(scores > 0)
        told_apart = np.zeros(len(possible)) if step.closed else -self._seeds(step.variable)[possible]
        order = np.lexsort((told_apart, -scores[possible]))
        if len(order) > self._width:
            self._outcome.exact = False
        return possible[order[: self._width]]

    def _seeds(self, variable: Variable) -> NDArray[np.int64]:
        """How many facts have each entity in a place of the variable: what no formula tells apart yet."""
        edges, total = self._scores.view.edges, np.zeros(len(self._scores.view.entities), dtype=np.int64)
        for atom in self._question.atoms:
            predicate = self._numbers.predicates[atom.predicate]
            for term, way in zip(atom.terms, (predicate, predicate + edges.num_predicates), strict=True):
                if term == variable:
                    total += edges.degrees_by(way)
        return total

    def _take_complete(self, seen: set[tuple[int, ...]]) -> None:
        """Answers that were complete, though better ones may have been missed, best first."""
        for partial in sorted(partial for partial in self._waiting if not partial.open):
            if len(self._outcome.found) >= self._question.top_k:
                break
            if not self._known(partial.entities, seen):
                self._remember(partial.entities, seen)
                self._outcome.found.append(Found(partial.entities, -partial.cost))
