"""A logical question, complete and checked: every variable that is asked for, or negated, is bound by an atom."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ctp_core.logic.formula import (
    VARIABLE,
    Conjunction,
    Not,
    Or,
    QueryAtom,
    Variable,
    atoms_of,
    bound_by,
    variables_of,
)
from ctp_core.logic.syntax import BadQuery
from ctp_core.logic.truth import DEFAULT, TNORM_OF
from ctp_core.symbols import Fact

MAX_ATOMS = 16


@dataclass(frozen=True)
class LogicalQuestion:
    """Which bindings of `select` make `where` true, and how far.

    A variable that is not selected may stand for anything: the best it can stand for counts. With `distinct` each
    binding is an answer once, else once for each binding of all variables. `types` limits a variable to the entities
    that the KB states to be of a type.
    """

    where: Conjunction
    select: tuple[Variable, ...]
    distinct: bool = True
    tnorm: str = DEFAULT
    types: Mapping[Variable, str] = field(default_factory=dict)
    type_predicate: str | None = None
    facts: tuple[Fact, ...] = ()
    without: tuple[Fact, ...] = ()
    top_k: int = 10
    proofs: int = 1
    explain: bool = False

    @property
    def variables(self) -> tuple[Variable, ...]:
        return variables_of(self.where)

    @property
    def atoms(self) -> tuple[QueryAtom, ...]:
        return tuple(atoms_of(self.where))


def check(question: LogicalQuestion, max_atoms: int = MAX_ATOMS) -> None:
    """Raises BadQuery where the question is too large or has no meaning."""
    if not question.where:
        raise BadQuery("there is no atom: give at least one, such as treats(?d, asthma)")
    if len(question.atoms) > max_atoms:
        raise BadQuery(f"the question has {len(question.atoms)} atoms, more than {max_atoms}: ask in several questions")
    if question.tnorm not in TNORM_OF:
        raise BadQuery(f"{question.tnorm!r} is not a t-norm: choose from {', '.join(TNORM_OF)}", "tnorm")
    _check_safe(question.where, frozenset())
    _check_bound(question)


def selected(where: Conjunction, names: Sequence[str] | None) -> tuple[Variable, ...]:
    """The variables that are asked for: those named, or all that are bound; raises BadQuery."""
    if names is None:
        bound = bound_by(where)
        return tuple(variable for variable in variables_of(where) if variable in bound)
    return tuple(dict.fromkeys(variable_named(name, f"select.{number}") for number, name in enumerate(names)))


def variable_named(text: str, place: str) -> Variable:
    """`?d` as a variable; raises BadQuery."""
    if not VARIABLE.fullmatch(text):
        raise BadQuery(f"{text[:40]!r} is not a variable: write a question mark and a word, such as ?d", place)
    return Variable(text[1:])


def _check_safe(formulas: Conjunction, outer: frozenset[Variable]) -> None:
    """Every variable of a negation is bound by an atom beside it or around it."""
    bound = outer | bound_by(formulas)
    for formula in formulas:
        if isinstance(formula, Not):
            free = [variable for variable in variables_of((formula,)) if variable not in bound]
            if free:
                raise BadQuery(f"{free[0]} occurs under `not` alone, where it could be any entity: add an atom with it")
        elif isinstance(formula, Or):
            for branch in formula.branches:
                _check_safe(branch, bound)


def _check_bound(question: LogicalQuestion) -> None:
    bound, known = bound_by(question.where), question.variables
    for number, variable in enumerate(question.select):
        if variable not in bound:
            raise BadQuery(f"{variable} {_why_unbound(variable, known)}", f"select.{number}")
    for variable in question.types:
        if variable not in known:
            raise BadQuery(f"{variable} does not occur in `where`", "types")


def _why_unbound(variable: Variable, known: Sequence[Variable]) -> str:
    if variable not in known:
        return "does not occur in `where`"
    return "is not bound: it needs an atom that is neither negated nor in only some branches of an `or`"
