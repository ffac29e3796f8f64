"""`ctp bench peers`: our models beside other programs, in one run."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.commands.console import Figures, name, out, table
from service.commands.extras import needs

if TYPE_CHECKING:
    from rich.text import Text

    from ctp_core.benchmarks.peers import Row


@needs("worker")
def peers(
    data: Annotated[Path, typer.Option(help="Folder that holds one folder per data set.")],
    dataset: Annotated[str, typer.Option(help="nations, umls, kinship, countries-s1, …")],
    model: Annotated[list[str] | None, typer.Option(help="Ours: proofs, hybrid, complex, …; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    json_file: Figures = None,
) -> None:
    """PyKEEN's ComplEx (pip install '.\\[peers]') and ours: MRR, CPU seconds, memory, latency of one query."""
    from ctp_core.benchmarks.peers import OURS, rows  # noqa: PLC0415

    found = rows(data, dataset, model or OURS, seed)
    columns = ("MRR", "Hits@1", "Hits@3", "Hits@10", "train, CPU s", "memory, MB", "one query, ms")
    out.print(table(("program", *columns, "source"), [_shown(row) for row in found], columns))
    if json_file:
        json_file.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")


def _shown(row: "Row") -> "list[str | Text]":
    metrics = [row.metrics.get(key) for key in ("mrr", "hits@1", "hits@3", "hits@10")]
    figures = ["–" if value is None else f"{value:.3f}" for value in metrics]
    costs = [(row.train_cpu_seconds, ".1f"), (row.peak_mb, ".0f"), (row.query_ms, ".2f")]
    written = ["–" if value is None else f"{value:{form}}" for value, form in costs]
    return [row.name, *figures, *written, name(row.source)]
