"""`ctp evaluate`: the figures of a model on a split of its KB."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from ctp_client import Evaluation, Group
from service.commands.console import Json, Key, Url, connected, name, out, print_json
from service.commands.train import report_failure, watch

SHOWN = 15  # predicates, the most frequent first


class Split(StrEnum):
    test = "test"
    valid = "valid"


def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="name, name@3, name@alias or id.")],
    split: Annotated[Split, typer.Option(help="Facts or graphs to ask for.")] = Split.test,
    kb: Annotated[str | None, typer.Option(help="Another KB to ask about; else that of the model.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Ask for a random sample of so many.")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Print the job's id and do not wait for its end.")] = False,
    url: Url = None,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Ask a model for facts that it was not trained on, and show how often it is right."""
    with connected(url, key) as client:
        started = client.evaluations.create(model, split.value, kb, limit)
        if detach:
            print_json(started) if as_json else out.print(name(started.id))
            return
        job = watch(client, started.id, f"{started.model} on {split.value}", quiet=as_json)
        found = client.evaluations.get(started.id)
    if job.status != "succeeded":
        print_json(found) if as_json else None
        report_failure(job)
        raise typer.Exit(1)
    print_json(found) if as_json else show(found)


def show(found: Evaluation) -> None:
    """Prints the figures: of all questions, by direction or length, by predicate, and how well they are calibrated."""
    sampled = f" (a sample of {found.num_available:,})" if found.num_items != found.num_available else ""
    out.print(name(f"{found.model} on {found.num_items:,} of {found.split} of {found.kb}{sampled}", "bold"))
    whole = Group(name="all", num_items=found.num_items or 0, metrics=found.metrics)
    directions = [group.model_copy(update={"name": f"asked for the {group.name}"}) for group in found.by_direction]
    lengths = [group.model_copy(update={"name": f"{group.name} facts"}) for group in found.by_length]
    unseen = [found.unseen] if found.unseen and found.unseen.num_items else []
    _print_groups([whole, *directions, *lengths, *unseen], found)
    _print_groups(found.by_predicate[:SHOWN], found)
    if len(found.by_predicate) > SHOWN:
        out.print(f"… and {len(found.by_predicate) - SHOWN} more predicates: `--json` lists them", style="dim")
    if found.num_left_out:
        out.print(f"{found.num_left_out:,} facts were left out: the model does not know their predicates")
    if found.calibration:
        out.print(f"calibration error {found.calibration.ece:.3f} (0: probabilities come true as often as they say)")


def _print_groups(groups: Sequence[Group], found: Evaluation) -> None:
    columns = list(found.metrics)
    table = Table("", "number", *columns, box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for group in groups:
        figures = [f"{group.metrics[column]:.3f}" if column in group.metrics else "" for column in columns]
        table.add_row(name(group.name), f"{group.num_items:,}", *figures)
    out.print(table)
