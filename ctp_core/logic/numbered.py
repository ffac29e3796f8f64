"""A logical question in the numbers of a view: which entities its names are, and which its variables may stand for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from ctp_core.base.facts_model import FactsView
from ctp_core.errors import UnknownSymbol
from ctp_core.logic.formula import QueryAtom, Term, Variable
from ctp_core.logic.question import LogicalQuestion
from ctp_core.logic.syntax import BadQuery
from ctp_core.symbols import Vocabulary

TYPE_NAMES = ("a", "type", "rdf:type", "is_a", "isa", "instance_of", "instanceof")
_LAST_PART = re.compile(r"[^#/:]*$")
Bound = Mapping[Variable, int]


@dataclass(frozen=True)
class Numbers:
    """The ids of the names of a question, and the entities that each of its typed variables may stand for."""

    entities: Mapping[str, int]
    predicates: Mapping[str, int]
    allowed: Mapping[Variable, Bool[np.ndarray, " entity"]]

    def entity(self, term: Term, bound: Bound) -> int | None:
        """The entity that a term stands for; None for a variable that is not bound yet."""
        return bound.get(term) if isinstance(term, Variable) else self.entities[term]

    def fact(self, atom: QueryAtom, bound: Bound) -> tuple[int, int, int]:
        """The fact that an atom is once all its variables are bound."""
        subject, object_ = (self.entity(term, bound) for term in atom.terms)
        assert subject is not None and object_ is not None
        return subject, self.predicates[atom.predicate], object_


def number(question: LogicalQuestion, view: FactsView) -> Numbers:
    """Raises UnknownSymbol with the nearest names, or BadQuery where the KB states no types."""
    terms = {term for atom in question.atoms for term in atom.terms if isinstance(term, str)}
    entities = {name: view.entities.id(name) for name in sorted(terms)}
    predicates = {atom.predicate: view.predicates.id(atom.predicate) for atom in question.atoms}
    if not question.types:
        return Numbers(entities, predicates, {})
    by = view.predicates.id(question.type_predicate) if question.type_predicate else _type_predicate(view.predicates)
    return Numbers(entities, predicates, {v: _of_type(view, by, name) for v, name in question.types.items()})


def _type_predicate(predicates: Vocabulary) -> int:
    """The predicate that states types: RDF's `a`, or one that is named as such; the first of TYPE_NAMES decides."""
    last_parts = {_LAST_PART.findall(name)[0].casefold(): number for number, name in enumerate(predicates)}
    for name in TYPE_NAMES:
        if name in last_parts:
            return last_parts[name]
    raise BadQuery(
        "no predicate of this KB is named as one that states types, such as rdf:type or is_a: name it in "
        "`type_predicate`",
        "types",
    )


def _of_type(view: FactsView, predicate: int, name: str) -> Bool[np.ndarray, " entity"]:
    """The entities that are stated to be of a type, in any split."""
    stated = view.stated[view.stated[:, 1] == predicate]
    found = np.zeros(len(view.entities), dtype=bool)
    if name in view.entities:
        found[stated[stated[:, 2] == view.entities.id(name), 0]] = True
    if not found.any():
        known = (view.entities.names[type_] for type_ in np.unique(stated[:, 2]).tolist())
        raise UnknownSymbol("type", name, known, f"as an object of {view.predicates.names[predicate]!r}")
    return found
