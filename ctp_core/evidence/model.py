"""What models that add evidence share: answers, which proofs.py explains, and rules with a confidence."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Protocol

import numpy as np
from jaxtyping import Float

from ctp_core.base.edges import EdgeList
from ctp_core.base.facts_model import Explanation, FactsModel, FactsView
from ctp_core.base.goals import GoalIds
from ctp_core.base.rule_counts import FactsCounter
from ctp_core.evidence.proofs import WeighedPaths, count_proofs, explained, list_proofs, unexplained
from ctp_core.evidence.rules import chain_rule, constant_rule, rule_confidence
from ctp_core.kb.knowledge_base import FactIds, FactsKB
from ctp_core.rules import Rule, Template

MIN_EVIDENCE = 0.05  # a rule whose proof moves the logit by less is not worth listing


class Arrays(Protocol):
    """Weighted rules in one form or another."""

    def biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logit of a fact without any proof."""

    def totals(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logits of facts."""

    def reach(self, edges: EdgeList, predicate: int, start: int, *, forward: bool) -> Float[np.ndarray, " entity"]:
        """The logits of all objects of a subject or, unless `forward`, of all subjects of an object."""

    def weigh(self, edges: EdgeList, facts: FactIds) -> list[WeighedPaths]:
        """All proofs of the facts that are walked, none by the fact itself; of these facts the shares and the biases
        add up to the logits."""

    def evidence(self, predicate: int, template: Template, body: tuple[int, ...]) -> float:
        """What a single proof by this rule adds to the logit."""

    def bodies(self, predicate: int, least: float) -> Iterable[tuple[Template, tuple[int, ...]]]:
        """(template, body) of the rules worth listing, of which a single proof adds at least `least` to the logit."""


class EvidenceModel(FactsModel):
    """Every proof adds its share to the logit."""

    def __init__(self, kb: FactsKB) -> None:
        self.kb = kb
        self._rules: dict[tuple[int, Template, tuple[int, ...]], Rule] = {}

    @property
    @abstractmethod
    def arrays(self) -> Arrays: ...

    @property
    def semiring(self) -> str:
        return "evidence"

    def logits(self, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        edges = view.edges
        if not goals.asks_for_entities:
            return goals.by_goal(self.arrays.totals(edges, goals.candidates(*view.sizes)))
        asked = zip(goals.predicates.tolist(), goals.given.tolist(), strict=True)
        return np.stack([self.arrays.reach(edges, *one, forward=goals.forward) for one in asked])

    def biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logit of each fact without any proof."""
        return self.arrays.biases(facts)

    def explain(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        biases = self.biases(facts)
        if num_proofs <= 0:
            return unexplained(logits, biases)
        weighed = self.arrays.weigh(view.edges, facts)
        proofs = list_proofs(view, facts, weighed, num_proofs, self._rule)
        return explained(logits, biases, count_proofs(weighed, len(facts)), proofs)

    def _rule(self, predicate: int, template: Template, body: tuple[int, ...]) -> Rule:
        key = (predicate, template, body)
        if key not in self._rules:
            self._rules[key] = self._named(predicate, template, body)
        return self._rules[key]

    def _named(self, predicate: int, template: Template, body: tuple[int, ...]) -> Rule:
        bias = float(self.arrays.biases(np.array([[0, predicate, 1]]))[0])
        confidence = rule_confidence(bias, self.arrays.evidence(predicate, template, body))
        if template.constant:
            return constant_rule(self.kb, predicate, body, confidence)
        return chain_rule(self.kb.predicates.names, predicate, template, body, confidence)

    def counts(self, predicate: int, template: Template, body: tuple[int, ...]) -> tuple[int, int]:
        """(support, how often the body holds)."""
        return FactsCounter(self.kb_view.edges, self.kb.predicates).count_atoms(predicate, template, body)

    def rules(self) -> list[Rule]:
        """Rules whose body holds somewhere in the KB, by confidence, then precision.

        No proof adds more to a logit than a single proof by its rule would, so that in a model that lists all its
        strong rules every proof with a share of MIN_EVIDENCE or more cites a listed one.
        """
        listed = []
        for predicate in range(len(self.kb.predicates)):
            for template, body in self.arrays.bodies(predicate, MIN_EVIDENCE):
                counts = self.counts(predicate, template, body)
                if counts[1]:
                    listed.append(self._named(predicate, template, body).counted(*counts))
        return sorted(listed, key=lambda rule: (-rule.confidence, -(rule.precision or 0.0), rule.text))
