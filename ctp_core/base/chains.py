"""Proofs along a chain of exact facts, as every family writes them that finds paths between two entities."""

from ctp_core.proofs import ProofNode, Unification
from ctp_core.rules import Rule
from ctp_core.symbols import Fact


def chain_proof(goal: Fact, rule: Rule, facts: tuple[Fact, ...], attentions: tuple[float, ...]) -> ProofNode:
    """A rule over exact facts; its score is the product of the attentions that chose its body predicates."""
    leaves = tuple(
        ProofNode(fact, 1.0, "fact", (Unification(fact.predicate, fact.predicate, 1.0),), fact=fact) for fact in facts
    )
    unifications, score = [], 1.0
    for fact, attention in zip(facts, attentions, strict=True):
        unifications.append(Unification(fact.predicate, fact.predicate, attention))
        score *= attention
    return ProofNode(goal, score, "rule", tuple(unifications), rule=rule, children=leaves)
