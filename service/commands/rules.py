"""`ctp rules`: lists the rules that a model has learnt."""

from itertools import islice
from typing import Annotated

import typer

from service.commands.console import Json, Key, Limit, Url, connected, name, out, print_json, strength, table


def rules(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="id, name, name@3 or name@champion.")],
    predicate: Annotated[str | None, typer.Option("--predicate", "-p", help="Predicate of the head.")] = None,
    min_confidence: Annotated[float, typer.Option(min=0, max=1)] = 0.0,
    prolog: Annotated[bool, typer.Option("--prolog", help="Print a Prolog program.")] = False,
    limit: Limit = 50,
    url: Url = None,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """List the rules of a model, best first."""
    with connected(url, key) as client:
        if prolog:
            typer.echo(client.models.prolog(model, predicate, min_confidence, limit), nl=False)
            return
        found = list(islice(client.models.rules(model, predicate, min_confidence, limit), limit))
    if as_json:
        print_json(found)
        return
    if not found:
        out.print(_none(predicate, min_confidence), style="dim")
        return
    rows = [
        (
            strength(rule.confidence),
            "" if rule.support is None else f"{rule.support:,}",
            "" if rule.precision is None else f"{rule.precision:.2f}",
            name(rule.text),
        )
        for rule in found
    ]
    columns = ("confidence", "support", "precision", "rule")
    out.print(table(columns, rows, columns[:3]))


def _none(predicate: str | None, min_confidence: float) -> str:
    if predicate is None and not min_confidence:
        return "no rules: this model has learnt none, or its method does not learn rules"
    return "no rules match: leave out --predicate or --min-confidence to see all"
