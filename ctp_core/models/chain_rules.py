"""Chains of atoms as rules and proofs that people read: q⁻¹(X,Z) is written q(Z,X)."""

from ctp_core.proofs import ProofNode, Unification
from ctp_core.rules import Atom, Rule
from ctp_core.symbols import Fact

VARIABLES = ("X", "Z", "W", "V", "U")


def chain_rule(
    predicates: tuple[str, ...],
    head: int,
    body: tuple[int, ...],
    confidence: float,
    counts: tuple[int, int] | None = None,
) -> Rule:
    """p(X,Y) :- the atoms of `body` from X through Z, W… to Y; `counts` are (support, pairs)."""
    variables = (*VARIABLES[: len(body)], "Y")
    atoms = tuple(
        Atom(*_oriented(predicates, atom, variables[place], variables[place + 1])) for place, atom in enumerate(body)
    )
    template = "1R" if len(body) == 1 and body[0] >= len(predicates) else str(len(body))
    support, pairs = counts if counts is not None else (None, None)
    precision = None if support is None else support / pairs if pairs else 0.0
    return Rule(Atom(predicates[head], "X", "Y"), atoms, template, confidence, support, precision)


def chain_facts(predicates: tuple[str, ...], body: tuple[int, ...], stations: tuple[str, ...]) -> tuple[Fact, ...]:
    """The facts of the KB along a path through `stations`, each the way round the KB states it."""
    facts = []
    for place, atom in enumerate(body):
        predicate, subject, object_ = _oriented(predicates, atom, stations[place], stations[place + 1])
        facts.append(Fact(subject, predicate, object_))
    return tuple(facts)


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


def _oriented(predicates: tuple[str, ...], atom: int, left: str, right: str) -> tuple[str, str, str]:
    if atom < len(predicates):
        return predicates[atom], left, right
    return predicates[atom - len(predicates)], right, left
