"""Writes proof trees and rules of the soft prover from a plan and the path of facts that the search found."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ctp_core.base.facts_model import FactsView
from ctp_core.ctp_facts.pairs import Chain
from ctp_core.ctp_facts.plans import Plan
from ctp_core.ctp_facts.theory import SoftTheory
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.proofs import ProofNode, Unification
from ctp_core.rules import Body, Rule, Template
from ctp_core.symbols import Fact

EXACT = 1e-6  # a generated vector nearer than this to a predicate counts as that predicate


@dataclass(frozen=True)
class PathStep:
    """One step along the path of a goal: from an entity to the next by a fact."""

    start: int
    end: int
    fact: FactIds  # [3]
    score: float

    @property
    def back(self) -> "PathStep":
        return PathStep(self.end, self.start, self.fact, self.score)


@dataclass(frozen=True)
class _RuleVectors:
    template: Template
    bodies: Float[Tensor, "place dim"]
    head: float | None  # how well the head meets the goal


class TreeWriter:
    """Expands a goal with `select` level by level. Generated predicates get the name of the nearest known one."""

    def __init__(self, theory: SoftTheory) -> None:
        self.theory = theory

    def tree(
        self, view: FactsView, chain: Chain, stations: tuple[int, ...], facts: list[FactIds], scores: list[float]
    ) -> ProofNode:
        """Writes one proof; `stations` and `facts` lie along the path from the goal's subject to its object."""
        steps = [
            PathStep(start, end, fact, score)
            for start, end, fact, score in zip(stations[:-1], stations[1:], facts, scores, strict=True)
        ]
        vector = self.theory.predicates[chain.row]
        return self._node(view, chain.chains.plan, vector, chain.number, steps)

    def rule(self, names: tuple[str, ...], chain: Chain) -> Rule:
        """The rule of a chain whose plan has exactly one rule."""
        template = chain.chains.plan.template
        assert template is not None
        vector = self.theory.predicates[chain.row]
        return self._rule(names, vector, self._expand(template, vector, chain.number))

    def _node(self, view: FactsView, plan: Plan, vector: Tensor, number: int, steps: list[PathStep]) -> ProofNode:
        name, distance = self._nearest(vector)
        predicate = view.predicates.names[name]
        entities = view.entities.names
        goal = Fact(entities[steps[0].start], predicate, entities[steps[-1].end])
        if plan.template is None:
            stated = view.fact(*steps[0].fact.tolist())
            met = Unification(str(goal), str(stated), steps[0].score, approximate=distance > EXACT)
            return ProofNode(goal, steps[0].score, "fact", (met,), fact=stated)
        reformulator, numbers = self._decode(plan, number)
        made = self._expand(plan.template, vector, reformulator)
        if plan.template.reversed:
            steps = [step.back for step in reversed(steps)]
        children = []
        for part, body, below in zip(plan.parts, made.bodies, numbers, strict=True):
            own, steps = steps[: len(part.flips)], steps[len(part.flips) :]
            children.append(self._node(view, part, body, below, own))
        rule = self._rule(view.predicates.names, vector, made)
        head = () if made.head is None else (Unification(predicate, "rule head", made.head, approximate=True),)
        score = self.theory.tnorm.of([*(u.score for u in head), *(child.score for child in children)])
        return ProofNode(goal, score, "rule", head, rule=rule, children=plan.template.along(tuple(children)))

    def _decode(self, plan: Plan, number: int) -> tuple[int, list[int]]:
        """Splits the number of a chain into (reformulator, numbers of the parts); inverse to the layout of chains."""
        numbers = []
        for part in reversed(plan.parts):
            number, below = divmod(number, part.width(self.theory.select.groups))
            numbers.append(below)
        return number, numbers[::-1]

    def _expand(self, template: Template, vector: Tensor, reformulator: int) -> _RuleVectors:
        [rule] = [e for e in self.theory.select(vector[None], self.theory.predicates) if e.template == template]
        head = None if rule.heads is None else float(rule.heads[0, reformulator])
        return _RuleVectors(template, rule.bodies[0, reformulator], head)

    def _rule(self, names: tuple[str, ...], vector: Tensor, made: _RuleVectors) -> Rule:
        """Its confidence is ⊗ of the head and of how near generated vectors are to the predicates shown for them."""
        nearest = [self._nearest(body) for body in made.bodies]
        slope = self.theory.config.slope
        scores = [] if made.head is None else [made.head]
        confidence = self.theory.tnorm.of(scores + [math.exp(-slope * distance) for _, distance in nearest])
        body = Body.of(made.template, tuple(names[name] for name, _ in nearest))
        return Rule(names[self._nearest(vector)[0]], body, confidence, approximate=True)

    def _nearest(self, vector: Tensor) -> tuple[int, float]:
        """(predicate, distance) of the known predicate nearest to a vector."""
        distances = torch.linalg.vector_norm(self.theory.predicates - vector, dim=1)
        best = int(distances.argmin())
        return best, float(distances[best])


def rules_in(node: ProofNode) -> str:
    """The texts of all rules of a tree, in order; they distinguish proofs by the same facts."""
    own = "" if node.rule is None else node.rule.text
    return ";".join([own, *(rules_in(child) for child in node.children)])
