"""What a logical question asks: atoms over variables and entities, joined by and, or, not."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

# A name that needs no quotes. Commas, brackets, quotes and white space end it; `?` at its beginning marks a variable.
PLAIN = re.compile(r"[^\s(),\"?][^\s(),\"]*")
VARIABLE = re.compile(r"\?[^\W\d]\w*")
RESERVED = ("not", "or")


@dataclass(frozen=True)
class Variable:
    """A variable, written `?d`; its name has no question mark."""

    name: str

    def __str__(self) -> str:
        return f"?{self.name}"


Term: TypeAlias = Variable | str


@dataclass(frozen=True)
class QueryAtom:
    """A predicate over two terms, each a variable or the name of an entity."""

    predicate: str
    subject: Term
    object: Term

    @property
    def terms(self) -> tuple[Term, Term]:
        return self.subject, self.object

    def __str__(self) -> str:
        return f"{written(self.predicate)}({_term(self.subject)}, {_term(self.object)})"


@dataclass(frozen=True)
class Not:
    """True as far as `formula` is not."""

    formula: "Formula"

    def __str__(self) -> str:
        return f"not {self.formula}"


@dataclass(frozen=True)
class Or:
    """True as far as one of its branches is, each a conjunction."""

    branches: tuple["Conjunction", ...]

    def __str__(self) -> str:
        return f"({' or '.join(map(conjunction_text, self.branches))})"


Formula: TypeAlias = QueryAtom | Not | Or
Conjunction: TypeAlias = tuple[Formula, ...]


def conjunction_text(conjunction: Conjunction) -> str:
    return ", ".join(map(str, conjunction))


def written(name: str) -> str:
    """A name as the text of a question has it: as a JSON string where it is not a plain word."""
    plain = PLAIN.fullmatch(name) is not None and name not in RESERVED
    return name if plain else json.dumps(name, ensure_ascii=False)


def _term(term: Term) -> str:
    return str(term) if isinstance(term, Variable) else written(term)


def atoms_of(formulas: Iterable[Formula]) -> Iterator[QueryAtom]:
    """All atoms in the order of the text."""
    for atom, _ in signed_atoms(formulas):
        yield atom


def signed_atoms(formulas: Iterable[Formula], *, negated: bool = False) -> Iterator[tuple[QueryAtom, bool]]:
    """All atoms in the order of the text, and whether each is under an odd number of negations."""
    for formula in formulas:
        if isinstance(formula, QueryAtom):
            yield formula, negated
        elif isinstance(formula, Not):
            yield from signed_atoms((formula.formula,), negated=not negated)
        else:
            for branch in formula.branches:
                yield from signed_atoms(branch, negated=negated)


def variables_of(formulas: Iterable[Formula]) -> tuple[Variable, ...]:
    """Each variable once, in the order of the text."""
    terms = (term for atom in atoms_of(formulas) for term in atom.terms)
    return tuple(dict.fromkeys(term for term in terms if isinstance(term, Variable)))


def bound_by(formulas: Conjunction) -> frozenset[Variable]:
    """The variables that a conjunction binds: those of its atoms, and those that every branch of an `or` binds."""
    bound: set[Variable] = set()
    for formula in formulas:
        if isinstance(formula, QueryAtom):
            bound.update(term for term in formula.terms if isinstance(term, Variable))
        elif isinstance(formula, Or):
            bound.update(frozenset.intersection(*map(bound_by, formula.branches)))
    return frozenset(bound)
