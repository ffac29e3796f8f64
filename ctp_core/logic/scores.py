"""The scores of atoms: 1 for a stated fact, else the probability that the model gives it."""

from collections import OrderedDict

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ctp_core.base.deadline import Expired, look
from ctp_core.base.facts_model import FactsModel, FactsView
from ctp_core.base.goals import GoalIds, Place
from ctp_core.logic.formula import Conjunction, Formula, Not, QueryAtom
from ctp_core.logic.numbered import Bound, Numbers
from ctp_core.logic.truth import Truth

KEPT_BYTES = 64 * 2**20  # of rows of scores that are kept, those used last
LOOPS_AT_ONCE = 64  # facts about one entity twice whose scores are computed together
Row = Float[np.ndarray, " entity"]


class Scores:
    """Rows of scores of one question, each computed once. Raises OutOfTime once `expired`."""

    def __init__(self, model: FactsModel, view: FactsView, expired: Expired) -> None:
        self.model, self.view, self._expired = model, view, expired
        self._rows: OrderedDict[tuple[int, int, bool], Row] = OrderedDict()  # the least used first
        self._loops: dict[int, Row] = {}

    def row(self, predicate: int, entity: int, *, forward: bool) -> Row:
        """The scores of all objects of an entity or, unless `forward`, of all its subjects."""
        key = (predicate, entity, forward)
        if key not in self._rows:
            look(self._expired)
            self._rows[key] = self._compute(predicate, entity, forward=forward)
            while len(self._rows) * len(self.view.entities) * 8 > KEPT_BYTES and len(self._rows) > 1:
                self._rows.popitem(last=False)
        self._rows.move_to_end(key)
        return self._rows[key]

    def loops(self, predicate: int) -> Row:
        """The scores of the facts about each entity and itself."""
        if predicate not in self._loops:
            everybody = np.arange(len(self.view.entities))
            facts = np.stack([everybody, np.full_like(everybody, predicate), everybody], axis=1)
            parts = []
            for start in range(0, len(facts), LOOPS_AT_ONCE):
                look(self._expired)
                some = facts[start : start + LOOPS_AT_ONCE]
                parts.append(self.of(some, self.model.logits(self.view, GoalIds.hiding(some, None))[:, 0]))
            self._loops[predicate] = np.concatenate(parts)
        return self._loops[predicate]

    def of(self, facts: NDArray[np.int64], logits: Float[np.ndarray, " fact"]) -> Float[np.ndarray, " fact"]:
        """The scores of facts with these logits."""
        found = np.array(self.model.probabilities(facts, logits), dtype=np.float64)
        found[self.view.edges.states(facts)] = 1.0
        return found

    def _compute(self, predicate: int, entity: int, *, forward: bool) -> Row:
        goal = np.array([[entity, predicate, entity]])
        goals = GoalIds.hiding(goal, Place.OBJECT if forward else Place.SUBJECT)
        facts = goals.candidates(*self.view.sizes)
        found = np.array(self.model.probabilities(facts, self.model.logits(self.view, goals)[0]), dtype=np.float64)
        atom = predicate if forward else predicate + self.view.edges.num_predicates
        found[self.view.edges.neighbours(entity, atom)] = 1.0
        return found


class Formulas:
    """The scores of formulas whose variables are all bound, but for one, which may stand for anything."""

    def __init__(self, scores: Scores, numbers: Numbers, truth: Truth) -> None:
        self._scores, self._numbers, self._truth = scores, numbers, truth

    def row(self, formula: Formula, bound: Bound) -> NDArray[np.float64]:
        """A score for each entity that the open variable may be; one for all of them where it does not occur."""
        if isinstance(formula, QueryAtom):
            return self._atom(formula, bound)
        if isinstance(formula, Not):
            return self._truth.negated(self.row(formula.formula, bound))
        branches = [self.conjunction(branch, bound) for branch in formula.branches]
        total = branches[0]
        for branch in branches[1:]:
            total = self._truth.either(total, branch)
        return total

    def conjunction(self, formulas: Conjunction, bound: Bound) -> NDArray[np.float64]:
        total = np.ones(1)
        for formula in formulas:
            total = self._truth.both(total, self.row(formula, bound))
        return total

    def _atom(self, atom: QueryAtom, bound: Bound) -> NDArray[np.float64]:
        predicate = self._numbers.predicates[atom.predicate]
        subject, object_ = (self._numbers.entity(term, bound) for term in atom.terms)
        if subject is None and object_ is None:
            return self._scores.loops(predicate)
        if subject is None:
            assert object_ is not None
            return self._scores.row(predicate, object_, forward=False)
        row = self._scores.row(predicate, subject, forward=True)
        return row if object_ is None else row[object_ : object_ + 1]
