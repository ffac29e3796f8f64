"""Logical questions answered by trying every binding: slow, and in plain Python, so that it can be read and trusted."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product

from ctp_core.base.facts_model import FactsModel
from ctp_core.base.model import Answers, Budget, Question
from ctp_core.logic.formula import Conjunction, Formula, Not, QueryAtom, Term, Variable
from ctp_core.logic.question import LogicalQuestion
from ctp_core.symbols import Fact, Goal

AND: dict[str, Callable[[float, float], float]] = {
    "product": lambda x, y: x * y,
    "min": min,
    "lukasiewicz": lambda x, y: max(0.0, x + y - 1),
}
OR: dict[str, Callable[[float, float], float]] = {
    "product": lambda x, y: x + y - x * y,
    "min": max,
    "lukasiewicz": lambda x, y: min(1.0, x + y),
}
Binding = dict[Variable, str]
NOTHING = 1e-9  # scores below may be rounding


@dataclass
class Oracle:
    """Asks the model for every fact alone, in the way that everybody asks."""

    model: FactsModel
    facts: tuple[Fact, ...] = ()
    scores: dict[Fact, float] = field(default_factory=dict)

    def score(self, fact: Fact) -> float:
        if fact not in self.scores:
            [found] = self.model.answer([Question(Goal(*fact), facts=self.facts, proofs=0)], Budget())
            assert isinstance(found, Answers)
            stated = fact in self.facts or fact in self.model.kb.facts("train")
            probability = found.items[0].probability
            self.scores[fact] = 1.0 if stated else found.items[0].score if probability is None else probability
        return self.scores[fact]

    def answers(self, question: LogicalQuestion, types: dict[Variable, set[str]] | None = None) -> dict[str, float]:
        """The best score of each binding of the selected variables, those of nothing left out."""
        found: dict[str, float] = {}
        for binding in self.bindings(question, types or {}):
            value = self.conjunction(question.where, binding, question.tnorm)
            key = ", ".join(binding[variable] for variable in question.select)
            if value > max(NOTHING, found.get(key, 0.0)):
                found[key] = value
        return found

    def bindings(self, question: LogicalQuestion, types: dict[Variable, set[str]]) -> Iterator[Binding]:
        names = list(dict.fromkeys([*self.model.kb.entities, *(n for f in self.facts for n in (f.subject, f.object))]))
        for entities in product(names, repeat=len(question.variables)):
            binding = dict(zip(question.variables, entities, strict=True))
            if all(binding[variable] in allowed for variable, allowed in types.items()):
                yield binding

    def conjunction(self, formulas: Conjunction, binding: Binding, tnorm: str) -> float:
        total = 1.0
        for formula in formulas:
            total = AND[tnorm](total, self.value(formula, binding, tnorm))
        return total

    def value(self, formula: Formula, binding: Binding, tnorm: str) -> float:
        if isinstance(formula, QueryAtom):
            return self.score(Fact(_name(formula.subject, binding), formula.predicate, _name(formula.object, binding)))
        if isinstance(formula, Not):
            return 1 - self.value(formula.formula, binding, tnorm)
        total = 0.0
        for branch in formula.branches:
            total = OR[tnorm](total, self.conjunction(branch, binding, tnorm))
        return total


def _name(term: Term, binding: Binding) -> str:
    return binding[term] if isinstance(term, Variable) else term
