"""`ctp bench scale`: measures one worker against two, or a large KB."""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from service.commands.console import Figures
from service.commands.extras import needs
from service.settings import UserError

FACTORS = {"": 1, "k": 1000, "m": 1_000_000}


@needs("all")
def scale(
    jobs: Annotated[int, typer.Option(help="Training jobs in each round.", min=2)] = 6,
    epochs: Annotated[int, typer.Option(help="Epochs of each job.", min=1)] = 12,
    query_seconds: Annotated[float, typer.Option(help="Seconds of queries in each round.", min=1)] = 10.0,
    rounds: Annotated[int, typer.Option(help="Rounds; each measures one worker, then two.", min=1)] = 3,
    facts: Annotated[
        str, typer.Option(help="Instead: upload and search a generated KB of so many facts, such as 200k or 10M.")
    ] = "",
    folder: Annotated[Path | None, typer.Option(help="With --facts: a folder with room for the KB.")] = None,
    json_file: Figures = None,
) -> None:
    """Measure training and queries with one and with two workers of one thread each, on PostgreSQL and Redis.

    With --facts: measure what it takes to store a large KB and to search it.
    """
    if facts:
        _storage(_number(facts), folder, json_file)
        return
    from service.benchmarks.scale import ScaleRun, measure  # noqa: PLC0415

    report = measure(ScaleRun(jobs, epochs, query_seconds, rounds)).report()
    for name in ("jobs_per_minute", "goals_per_second"):
        for workers, values in report[name].items():
            typer.echo(f"{name:18} {workers} workers  {', '.join(f'{value:.1f}' for value in values)}")
    typer.echo(f"training {report['training_speed_up']:.2f}x, queries {report['query_speed_up']:.2f}x")
    typer.echo(f"load average before each round: {report['load_average']}")
    if json_file:
        json_file.write_text(json.dumps(report, indent=1) + "\n")


def _number(text: str) -> int:
    """Reads `200k`, `10M` or a plain number; raises UserError."""
    found = re.fullmatch(r"(\d{1,9})([km]?)", text.lower())
    if found is None:
        raise UserError(f"--facts {text!r} is not a number such as 200k or 10M")
    return int(found[1]) * FACTORS[found[2]]


def _storage(num_facts: int, folder: Path | None, json_file: Path | None) -> None:
    from service.benchmarks.storage import measure  # noqa: PLC0415

    found = measure(num_facts, folder)
    upload = found.upload
    typer.echo(f"{found.num_facts:,} facts, {found.num_entities:,} entities, {found.file_bytes / 1e6:,.0f} MB of TSV")
    over_idle = f"{found.bytes_over_idle / 1e6:,.0f} MB over idle"
    typer.echo(f"upload {upload.wall:.1f} s ({upload.cpu:.1f} CPU s of the API), {over_idle}")
    typer.echo(f"stored {found.bytes_per_fact:.1f} bytes a fact, {found.name_bytes / found.num_entities:.1f} a name")
    for what, times in found.questions.items():
        first, then, cpu = (times[name] for name in ("first_ms", "median_ms", "cpu_ms"))
        typer.echo(f"{what:26} first {first:5.0f} ms, then {then:5.0f} ms, {cpu:5.1f} CPU ms")
    if json_file:
        report = asdict(found) | {"bytes_per_fact": found.bytes_per_fact}
        json_file.write_text(json.dumps(report, indent=1) + "\n")
