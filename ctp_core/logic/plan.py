"""In which order the variables of a question are bound, and which of its formulas each of them closes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ctp_core.base.edges import EdgeList
from ctp_core.base.facts_model import FactsView
from ctp_core.logic.formula import Conjunction, QueryAtom, Variable, variables_of
from ctp_core.logic.numbered import Numbers


@dataclass(frozen=True)
class Step:
    """Binds one variable. `closed` are the formulas all of whose variables are bound from then on.

    `candidates` estimates how many facts the KB states for it, given what is bound before.
    """

    variable: Variable
    closed: Conjunction
    candidates: float


@dataclass(frozen=True)
class Plan:
    """`ground` formulas have no variable; `formulas` are all of them, in the order in which they are closed."""

    ground: Conjunction
    steps: tuple[Step, ...]


def make_plan(where: Conjunction, numbers: Numbers, view: FactsView) -> Plan:
    """Binds the variable with the fewest candidates first, then that with the fewest given those, and so on."""
    sizes = _Sizes(view, numbers)
    left, bound = list(variables_of(where)), set[Variable]()
    open_ = [formula for formula in where if variables_of((formula,))]
    steps = []
    while left:
        estimates = [sizes.candidates(variable, where, bound) for variable in left]
        at = int(np.argmin(estimates))
        variable = left.pop(at)
        bound.add(variable)
        closed = tuple(formula for formula in open_ if bound.issuperset(variables_of((formula,))))
        open_ = [formula for formula in open_ if formula not in closed]
        steps.append(Step(variable, closed, estimates[at]))
    ground = tuple(formula for formula in where if not variables_of((formula,)))
    return Plan(ground, tuple(steps))


class _Sizes:
    """How many facts the KB states, by predicate and by entity."""

    def __init__(self, view: FactsView, numbers: Numbers) -> None:
        self._edges: EdgeList = view.edges
        self._numbers = numbers
        self._num_entities = len(view.entities)
        self._facts_by = np.bincount(view.edges.atom, minlength=2 * view.edges.num_predicates)

    def candidates(self, variable: Variable, where: Conjunction, bound: Iterable[Variable]) -> float:
        known = set(bound)
        found = [self._by_atom(variable, f, known) for f in where if isinstance(f, QueryAtom) and variable in f.terms]
        allowed = self._numbers.allowed.get(variable)
        typed = self._num_entities if allowed is None else int(allowed.sum())
        return float(min([typed, *found]))

    def _by_atom(self, variable: Variable, atom: QueryAtom, bound: set[Variable]) -> float:
        """How many entities stand in the place of the variable, as the KB has it."""
        forward = atom.object == variable
        other = atom.subject if forward else atom.object
        predicate, count = self._numbers.predicates[atom.predicate], self._edges.num_predicates
        there, back = (predicate, predicate + count) if forward else (predicate + count, predicate)
        if isinstance(other, str):
            entity = self._numbers.entities[other]
            return len(self._edges.neighbours(entity, there))
        if other in bound:
            return float(self._facts_by[there] / max(1, self._edges.subjects_by[there]))
        return float(self._edges.subjects_by[back])


def described(plan: Plan) -> list[Mapping[str, object]]:
    """The plan for people: each variable in turn, what is checked then, and the estimates."""
    rows: list[Mapping[str, object]] = []
    total = 1.0
    for step in plan.steps:
        total *= max(1.0, step.candidates)
        rows.append(
            {
                "variable": str(step.variable),
                "checks": [str(formula) for formula in step.closed],
                "candidates": round(step.candidates, 1),
                "partial_answers": round(total, 1),
            }
        )
    return rows
