"""Chains weighed by attention and mined rules as one: what both say adds up, and the same facts are one proof."""

import numpy as np
from jaxtyping import Float

from ctp_core.base.edges import EdgeList
from ctp_core.evidence.attention_arrays import AttentionArrays
from ctp_core.evidence.body_tree import AtomIds
from ctp_core.evidence.proofs import WeighedPaths
from ctp_core.evidence.rules_arrays import RuleArrays
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.rules import Template


class Together:
    """Implements `Arrays` of evidence/model.py for a model that has both."""

    def __init__(self, attention: AttentionArrays, mined: RuleArrays) -> None:
        self.attention, self.mined = attention, mined

    def biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        return np.asarray(self.attention.biases(facts) + self.mined.biases(facts))

    def priors(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        return np.asarray(self.attention.priors(edges, facts) + self.mined.priors(edges, facts))

    def totals(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        return np.asarray(self.attention.totals(edges, facts) + self.mined.totals(edges, facts))

    def reach(self, edges: EdgeList, predicate: int, start: int, *, forward: bool) -> Float[np.ndarray, " entity"]:
        parts = (self.attention, self.mined)
        return np.asarray(sum(part.reach(edges, predicate, start, forward=forward) for part in parts))

    def weigh(self, edges: EdgeList, facts: FactIds, wanted: int | None = None) -> list[WeighedPaths]:
        return self.attention.weigh(edges, facts, wanted, self.mined.weigh(edges, facts))

    def evidence(self, predicate: int, template: Template, body: AtomIds) -> float:
        said = self.mined.evidence(predicate, template, body)
        return said + (
            self.attention.evidence(predicate, template, body) if template in self.attention.attention else 0
        )

    def bodies(self, predicate: int, least: float) -> set[tuple[Template, AtomIds]]:
        """Either part alone brings at least half of what both bring."""
        found = self.attention.bodies(predicate, least / 2) | self.mined.chain_bodies(predicate, least / 2)
        evidence = {rule: self.evidence(predicate, *rule) for rule in found}
        chains = {rule: said for rule, said in evidence.items() if said >= least}
        return chains.keys() | self.mined.constant_bodies(predicate, least, chains)
