"""`ctp rules`: lists the rules that a model has learnt."""

from itertools import islice
from typing import Annotated

import typer

from ctp_client.models import RuleFilter
from service.commands.console import Json, Key, Limit, Url, connected, name, out, print_json, strength, table


def rules(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="id, name, name@3 or name@champion.")],
    predicate: Annotated[str | None, typer.Option("--predicate", "-p", help="Predicate of the head.")] = None,
    min_confidence: Annotated[float, typer.Option(min=0, max=1)] = 0.0,
    min_support: Annotated[int, typer.Option(min=0, help="0 lists rules that conclude nothing known as well.")] = 1,
    min_precision: Annotated[float, typer.Option(min=0, max=1)] = 0.0,
    constants: Annotated[bool, typer.Option("--constants", help="List rules about named entities as well.")] = False,
    priors: Annotated[
        bool, typer.Option("--priors", help="List rules about X or Y alone as well: they say how common it is.")
    ] = False,
    prolog: Annotated[bool, typer.Option("--prolog", help="Print a Prolog program.")] = False,
    limit: Limit = 50,
    url: Url = None,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """List the rules of a model by head; within a head those that explain most (weight × support) come first."""
    wanted: RuleFilter = {
        "min_support": min_support,
        "min_precision": min_precision,
        "constants": constants,
        "priors": priors,
    }
    with connected(url, key) as client:
        if prolog:
            typer.echo(client.models.prolog(model, predicate, min_confidence, limit, **wanted), nl=False)
            return
        found = list(islice(client.models.rules(model, predicate, min_confidence, limit, **wanted), limit))
    if as_json:
        print_json(found)
        return
    if not found:
        filtered = bool(predicate or min_confidence or min_support > 1 or min_precision)
        out.print(_none(filtered), style="dim")
        return
    rows = [
        (
            strength(rule.confidence),
            "" if rule.weight is None else f"{rule.weight:.2f}",
            "" if rule.support is None else f"{rule.support:,}",
            "" if rule.precision is None else f"{rule.precision:.2f}",
            name(rule.text),
        )
        for rule in found
    ]
    columns = ("confidence", "weight", "support", "precision", "rule")
    out.print(table(columns, rows, columns[:4]))


def _none(filtered: bool) -> str:
    if not filtered:
        return (
            "no rules: this model has learnt none, or its method does not learn rules; "
            "--constants and --priors list further kinds"
        )
    return "no rules match: leave out --predicate and the --min options to see all"
