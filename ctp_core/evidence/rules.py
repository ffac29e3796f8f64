"""Bodies of atoms as rules and proofs that people read: q⁻¹(X,Z) is written q(Z,X)."""

from ctp_core.evidence.constants import SIDES
from ctp_core.evidence.features import ANY, atoms_of
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.proofs import ProofNode, Unification
from ctp_core.rules import Atom, Rule, quoted
from ctp_core.symbols import Fact

MIDDLES = ("Z", "W", "V", "U", "T")


def chain_rule(
    predicates: tuple[str, ...],
    head: int,
    template: str,
    body: tuple[int, ...],
    confidence: float,
    counts: tuple[int, int] | None = None,
) -> Rule:
    """p(X,Y) :- the atoms of `body` from X through Z, W… to Y, or about X or Y alone; `counts` (support, pairs)."""
    variables = {"1X": ("X", "Z"), "1Y": ("Y", "Z")}.get(template, ("X", *MIDDLES[: len(body) - 1], "Y"))
    atoms = tuple(Atom(*atom) for atom in _oriented(predicates, body, variables))
    shown = "1R" if template == "1" and body[0] >= len(predicates) else template
    support, pairs = counts if counts is not None else (None, None)
    precision = support / pairs if support is not None and pairs else None
    return Rule(Atom(predicates[head], "X", "Y"), atoms, shown, confidence, support, precision)


def constant_rule(
    kb: FactsKB, head: int, body: tuple[int, ...], confidence: float, counts: tuple[int, int] | None = None
) -> Rule:
    """p(X,c) :- q(X,d), p(c,Y) :- q(Y,d) or the same through Z; `body` is (side, path, d or ANY, c)."""
    side, path, other, constant = body
    atoms = atoms_of(path, 2 * len(kb.predicates))
    about = "XY"[side]
    fixed = quoted(kb.entities.names[constant])
    end = "Z" if other == ANY else quoted(kb.entities.names[other])
    said = _oriented(kb.predicates.names, atoms, (about, *MIDDLES[: len(atoms) - 1], end))
    arguments = (about, fixed) if side == 0 else (fixed, about)
    support, pairs = counts if counts is not None else (None, None)
    precision = support / pairs if support is not None and pairs else None
    head_atom, body_atoms = Atom(kb.predicates.names[head], *arguments), tuple(Atom(*one) for one in said)
    return Rule(head_atom, body_atoms, SIDES[side], confidence, support, precision)


def chain_facts(predicates: tuple[str, ...], body: tuple[int, ...], stations: tuple[str, ...]) -> tuple[Fact, ...]:
    """The facts of the KB along a path through `stations`, each the way round the KB states it."""
    return tuple(
        Fact(subject, predicate, object_) for predicate, subject, object_ in _oriented(predicates, body, stations)
    )


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


def _oriented(
    predicates: tuple[str, ...], body: tuple[int, ...], stations: tuple[str, ...]
) -> list[tuple[str, str, str]]:
    """(predicate, subject, object) of each body atom."""
    atoms = []
    for place, atom in enumerate(body):
        left, right = stations[place], stations[place + 1]
        if atom < len(predicates):
            atoms.append((predicates[atom], left, right))
        else:
            atoms.append((predicates[atom - len(predicates)], right, left))
    return atoms
