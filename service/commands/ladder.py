"""`ctp bench ladder`: trains on generated KBs from a thousand to a million facts."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.commands.console import Figures, err, name
from service.commands.extras import needs

if TYPE_CHECKING:
    from ctp_core.benchmarks.ladder.rungs import Row, Task


@needs("worker")
def ladder(
    json_file: Figures = None,
    resume: Annotated[
        Path | None, typer.Option(help="Folder that keeps finished rungs; those that it has are not run again.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Run only rungs that match, e.g. '10000-*-dense'; may be repeated.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Settings to train with, else the default.")] = None,
    method: Annotated[str | None, typer.Option(help="Method to train, else the preset's.")] = None,
    memory: Annotated[float, typer.Option(min=0.5, help="GB after which a rung is ended and noted as such.")] = 6.0,
    minutes: Annotated[float, typer.Option(min=0, help="Minutes after which the run ends, to be resumed.")] = 95.0,
    report: Annotated[Path | None, typer.Option(help="Folder for ladder.md and its plot, e.g. docs/results.")] = None,
    list_rungs: Annotated[bool, typer.Option("--list", help="Only list the rungs.")] = False,
) -> None:
    """Train on KBs of 1,000 to 1,000,000 facts with planted rules: what is found, what it costs, what scores mean."""
    from ctp_core.benchmarks.ladder.processes import Bounds, OutOfTime, run  # noqa: PLC0415
    from ctp_core.benchmarks.ladder.report import growth, write_report  # noqa: PLC0415
    from ctp_core.benchmarks.ladder.rungs import chosen  # noqa: PLC0415
    from ctp_core.presets import DEFAULT_PRESET  # noqa: PLC0415

    tasks = chosen(only or (), preset or DEFAULT_PRESET, method)
    if list_rungs:
        typer.echo("\n".join(task.rung for task in tasks))
        return
    rows: list[Row] = []
    try:
        for row in run(tasks, Bounds.of(memory, minutes), resume, _phase):
            rows.append(row)
            typer.echo(_said(row))
    except OutOfTime as out_of_time:
        go_on = "the same command goes on" if resume else "give --resume DIR to keep finished rungs"
        typer.echo(f"ctp: {minutes:g} minutes are over while {out_of_time}: {go_on}", err=True)
    grown = growth(rows)
    if grown.exponent is not None and grown.largest_step is not None:
        typer.echo(f"CPU seconds grow as facts^{grown.exponent:.2f}; the largest step is {grown.largest_step:.1f}x")
    if json_file:
        json_file.write_text(json.dumps(rows, indent=1) + "\n")
    if report:
        typer.echo(f"wrote {write_report(rows, f'ctp {shlex.join(sys.argv[1:])}', report)}")
    if len(rows) < len(tasks):
        raise typer.Exit(1)


def _phase(task: "Task", phase: str) -> None:
    err.print(name(f"{task.rung}: {phase}", "dim"))


def _said(row: dict[str, Any]) -> str:
    if row.get("failed"):
        return f"{row['rung']:20} {row['failed']}"
    return (
        f"{row['rung']:20} MRR {row['mrr']:.3f} (planted {row['planted_mrr']:.3f}), "
        f"rules {row['planted_found']}/{row['planted_rules']}, {row['train_cpu_seconds']:.1f} CPU s, "
        f"{row['peak_rss_mb']:,.0f} MB, ECE {row['ece']:.3f}, "
        f"query {row['first_query_ms']:,.0f} then {row['warm_query_ms']:,.0f} ms"
    )
