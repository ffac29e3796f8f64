"""`ctp ask`: asks a question with several atoms and variables, and shows the bindings with the proofs of the first."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ctp_client import LogicalAnswer, LogicalAnswers, ProvedAtom
from service.commands.console import Json, Key, Url, connected, name, out, print_json, printable, strength, table
from service.commands.query import proof_tree, tuple_of

EXAMPLE = "'treats(?d, asthma), targets(?d, ?p)'"


def ask(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="id, name, name@3 or name@champion.")],
    where: Annotated[
        str,
        typer.Argument(help=f"Atoms that must all hold, e.g. {EXAMPLE}; also `not atom` and `(atoms or atoms)`."),
    ],
    select: Annotated[
        list[str] | None,
        typer.Option("--select", help="Variable to list, e.g. ?d; may be repeated. Default: all."),
    ] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Type of a variable, e.g. ?d=Drug; may be repeated.")
    ] = None,
    tnorm: Annotated[str, typer.Option("--tnorm", help="product, min or lukasiewicz.")] = "product",
    facts: Annotated[
        list[str] | None,
        typer.Option("--fact", help="Extra fact for this question only, e.g. 'parent(rick, beth)'; may be repeated."),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", help="Fact to leave out for this question; may be repeated.")
    ] = None,
    kb: Annotated[str | None, typer.Option("--kb", help="KB to apply the model to; default: its own.")] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Maximum number of answers.")] = 10,
    proofs: Annotated[int, typer.Option("--proofs", min=0, help="Maximum number of proofs of each atom.")] = 1,
    plan: Annotated[bool, typer.Option("--plan", help="Show in which order the atoms are checked.")] = False,
    url: Url = None,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Ask a question with several atoms and variables; the first answer is shown with the proofs of its atoms."""
    typed = dict(map(_typed, types or []))
    extra, left_out = (list(map(tuple_of, some or [])) for some in (facts, without))
    with connected(url, key) as client:
        found = client.ask(
            model,
            where,
            select or None,
            top,
            proofs,
            types=typed,
            tnorm=tnorm,
            facts=extra,
            without=left_out,
            kb=kb,
            explain=plan,
        )
    if as_json:
        print_json(found)
    else:
        print_bindings(found)


def _typed(text: str) -> tuple[str, str]:
    variable, equals, type_ = text.partition("=")
    if not equals or not type_:
        raise typer.BadParameter(f"{text!r} is not of the form ?variable=type")
    return variable, type_


def print_bindings(found: LogicalAnswers) -> None:
    """Prints the answers as a table, and the atoms of the first one with their proofs."""
    for warning in found.warnings:
        out.print(name(f"! {warning}", "yellow"))
    for number, step in enumerate(found.plan or [], 1):
        checks = printable("; ".join(step["checks"])) or "nothing yet"
        out.print(Text(f"{number}. {step['variable']}: {checks} ({step['candidates']:g} candidates)", "dim"))
    if not found.answers:
        out.print("no answer", style="dim")
    else:
        out.print(_table(found.answers))
        for atom in found.answers[0].atoms:
            out.print()
            out.print(_proved(atom))
    if found.truncated:
        out.print("the search was cut short: there may be more and better answers", style="yellow")
    elif not found.exact:
        out.print(f"only the {found.width} best candidates of each variable were tried", style="dim")


def _table(answers: Sequence[LogicalAnswer]) -> Table:
    variables = list(answers[0].bindings)
    rows = []
    for a in answers:
        bound = (name(a.bindings[variable], "bold" if a.rank == 1 else "") for variable in variables)
        rows.append([Text(str(a.rank)), strength(a.score), *bound])
    return table(("", "score", *variables), rows, ("", "score"))


def _proved(atom: ProvedAtom) -> Tree:
    """The fact with its score; below it its proofs, where it is not stated."""
    sign = "not " if atom.negated else ""
    title = Text.assemble((sign + printable(str(atom.fact)), "bold"), "  ", strength(atom.score))
    if atom.stated:
        title.append("  stated", "dim")
    tree = Tree(title)
    if not atom.stated:
        tree.children.extend(proof_tree(proof.tree) for proof in atom.proofs)
    return tree
