"""Numbered atoms as rules and proofs that people read: q⁻¹(X,Z) is written q(Z,X).

Both methods, `proofs` and `rules`, use this module.
"""

from ctp_core.evidence.rules_features import ANY, atoms_of
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.rules import SIDES, Body, Rule, Template, steps_of

UNCOUNTED = 0.0  # the confidence of a rule before it is counted


def chain_rule(
    predicates: tuple[str, ...], head: int, template: Template, body: tuple[int, ...], weight: float
) -> Rule:
    """p(X,Y) :- the atoms of `body` from X through Z, Z2… to Y, or about X or Y alone; not counted yet."""
    return Rule(predicates[head], Body(steps_of(predicates, body), template.about), UNCOUNTED, weight=weight)


def constant_rule(kb: FactsKB, head: int, body: tuple[int, ...], weight: float) -> Rule:
    """p(X,c) :- q(X,d), p(c,Y) :- q(Y,d) or the same through Z; `body` is (side, path, d or ANY, c)."""
    side, path, other, constant = body
    predicates, entities = kb.predicates.names, kb.entities.names
    end = None if other == ANY else entities[other]
    steps = steps_of(predicates, atoms_of(path, 2 * len(predicates)))
    return Rule(predicates[head], Body(steps, SIDES[side].about, end), UNCOUNTED, entities[constant], weight=weight)
