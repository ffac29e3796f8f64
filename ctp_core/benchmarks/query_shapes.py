"""The shapes of questions that the field measures: drawn from a KB, written as formulas, and answered as sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

import numpy as np

from ctp_core.base.edges import EdgeList
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.logic.formula import Conjunction, Not, Or, QueryAtom, Term, Variable

# A step along one predicate, what holds at once, one or the other, and what does not hold; the innermost is an entity.
ANCHOR = "anchor"
Shape: TypeAlias = tuple["str | Shape", ...] | str
_P: Shape = ("step", ANCHOR)
SHAPES: dict[str, Shape] = {
    "1p": _P,
    "2p": ("step", _P),
    "3p": ("step", ("step", _P)),
    "2i": ("both", _P, _P),
    "3i": ("both", _P, _P, _P),
    "ip": ("step", ("both", _P, _P)),
    "pi": ("both", ("step", _P), _P),
    "2u": ("either", _P, _P),
    "up": ("step", ("either", _P, _P)),
    "2in": ("both", _P, ("not", _P)),
    "3in": ("both", _P, _P, ("not", _P)),
}
ANSWER = Variable("x")


@dataclass(frozen=True)
class Drawn:
    """A shape with its entities and predicates: `number` is that of the entity, or of the predicate of a step."""

    kind: str
    number: int = -1
    parts: tuple["Drawn", ...] = ()


def draw(shape: Shape, target: int, edges: EdgeList, choose: np.random.Generator) -> Drawn | None:
    """A question of this shape that `target` answers, but for negations, which are about another entity.

    None where the KB has no such facts.
    """
    if isinstance(shape, str):
        return Drawn(ANCHOR, target)
    kind, parts = str(shape[0]), shape[1:]
    if kind == "not":
        target = _any(edges, choose)
    if kind == "step":
        _, leading = edges.of_entities(np.array([target]))
        leading = leading[edges.atom[leading] >= edges.num_predicates]  # facts whose object is the target
        if not len(leading):
            return None
        edge = int(choose.choice(leading))
        source = draw(parts[0], int(edges.head[edge]), edges, choose)
        return None if source is None else Drawn(kind, int(edges.atom[edge]) - edges.num_predicates, (source,))
    drawn: list[Drawn | None] = []
    for part in parts:
        about = _any(edges, choose) if kind == "either" and drawn else target
        drawn.append(draw(part, about, edges, choose))
    found = tuple(part for part in drawn if part is not None)
    return Drawn(kind, -1, found) if len(found) == len(drawn) == len(set(found)) else None


def _any(edges: EdgeList, choose: np.random.Generator) -> int:
    return int(choose.choice(edges.facts[:, 2]))


def answers(drawn: Drawn, edges: EdgeList) -> frozenset[int]:
    """The entities that answer a question on these facts alone."""
    if drawn.kind == ANCHOR:
        return frozenset([drawn.number])
    if drawn.kind == "step":
        reached = (edges.neighbours(entity, drawn.number).tolist() for entity in answers(drawn.parts[0], edges))
        return frozenset(entity for some in reached for entity in some)
    negated = [part for part in drawn.parts if part.kind == "not"]
    sets = [answers(part, edges) for part in drawn.parts if part.kind != "not"]
    found = frozenset.union(*sets) if drawn.kind == "either" else frozenset.intersection(*sets)
    return found.difference(*(answers(part.parts[0], edges) for part in negated))


def written(drawn: Drawn, kb: FactsKB) -> Conjunction:
    """The question as formulas about ANSWER."""
    return _formulas(drawn, ANSWER, kb, count())


def _formulas(drawn: Drawn, about: Term, kb: FactsKB, fresh: "count[int]") -> Conjunction:
    if drawn.kind == "step":
        source, predicate = drawn.parts[0], kb.predicates.names[drawn.number]
        if source.kind == ANCHOR:
            return (QueryAtom(predicate, kb.entities.names[source.number], about),)
        middle = Variable(f"y{next(fresh)}")
        return (*_formulas(source, middle, kb, fresh), QueryAtom(predicate, middle, about))
    parts = [_formulas(part, about, kb, fresh) for part in drawn.parts]
    if drawn.kind == "either":
        return (Or(tuple(parts)),)
    if drawn.kind == "not":
        return (Not(_one(parts[0])),)
    return tuple(formula for part in parts for formula in part)


def _one(conjunction: Sequence[QueryAtom | Not | Or]) -> QueryAtom | Not | Or:
    [formula] = conjunction
    return formula
