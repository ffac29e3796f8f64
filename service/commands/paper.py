"""`ctp bench paper`: the paper's tables, run again."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from service.commands.extras import needs

if TYPE_CHECKING:
    from ctp_core.benchmarks.paper.pool import Report


@needs("worker")
def paper(
    data: Annotated[
        Path | None, typer.Option(help="Folder that holds clutrr/*.zip, umls/, kinship/, nations/, countries/.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of every cell.")] = 10,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the cells that are finished, here or elsewhere.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Cells that match, such as 'clutrr/089907f8/*/lstm/*'; may be repeated.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes, one thread each; as many as there are cores, if not given.")
    ] = None,
    report: Annotated[
        Path, typer.Option(help="Folder for paper.md, its plots and paper.json, which keeps the finished cells.")
    ] = Path("docs/results"),
    lab: Annotated[
        Path | None, typer.Option(help="Folder for the full report; if not given, `lab` beside that of --report.")
    ] = None,
    list_cells: Annotated[bool, typer.Option("--list", help="Only say which cells there are.")] = False,
) -> None:
    """Every cell of the paper's CLUTRR and link-prediction tables and its training dynamics, beside its own figures."""
    from ctp_core.benchmarks.paper.cells import cells as cells_of  # noqa: PLC0415
    from ctp_core.benchmarks.paper.pool import run_cells  # noqa: PLC0415
    from ctp_core.benchmarks.paper.report import Results, write_report  # noqa: PLC0415
    from ctp_core.benchmarks.paper.store import Store  # noqa: PLC0415
    from ctp_core.benchmarks.paper.summary import write_summary  # noqa: PLC0415

    chosen, store = cells_of(seeds, only or ()), Store(report / "paper.json")
    if list_cells:
        for cell in chosen:
            typer.echo(cell.path)
        return
    if data is None:
        raise typer.BadParameter("give the folder of the data sets with --data")
    failed: list[str] = []
    with _progress() as bar:
        line = bar.add_task("reading data", total=None, now="")

        def show(ended: "Report") -> None:
            if ended.error is not None:
                failed.append(f"{ended.cell.path}: {ended.error}")
            left = "" if ended.eta_seconds is None else f"{ended.eta_seconds / 60:.0f} min left"
            bar.update(line, description=ended.cell.path, completed=ended.done, total=ended.total, now=left)
            if not bar.console.is_terminal:  # a bar is drawn once, at the end, where nobody watches
                typer.echo(f"{ended.done}/{ended.total} {ended.cell.path} {left}", err=True)

        run_cells(chosen, data, store, jobs or os.cpu_count() or 1, resume, show)
    results, lab = Results.read(store, data), lab or report.parent / "lab"
    typer.echo(f"wrote {write_summary(results, report, lab)} and {write_report(results, lab, plots=report)}")
    for text in failed:
        typer.echo(f"ctp: {text}", err=True)
    if failed:
        raise typer.Exit(1)


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[now]}"))
    return Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True))
