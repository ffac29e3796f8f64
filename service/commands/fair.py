"""`ctp bench fair`: measures what one tenant notices of another."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from service.commands.console import Figures
from service.commands.extras import needs

LEAST_WIDTH = 170  # a narrower table cannot be read
PARTS = ("api", "query", "dispatch")
COLUMNS = (
    "load",
    "query p50",
    "p99 ms",
    "before",
    "not 200",
    "/healthz p50",
    "p99 ms",
    "before",
    "500s",
    "failed jobs",
)


@needs("all")
def fair(
    json_file: Figures = None,
    seconds: Annotated[float, typer.Option(help="Seconds for which each load lasts.", min=1)] = 20.0,
    after: Annotated[
        float, typer.Option(help="Seconds within which memory must be given back after a load.", min=0)
    ] = 60.0,
    only: Annotated[
        list[str] | None, typer.Option(help="Measure this load only; may be repeated; a wrong one lists all.")
    ] = None,
) -> None:
    """Measure a tenant's queries, /healthz and memory while another tenant sends the worst that it may."""
    from service.benchmarks.fair import FairRun, measure  # noqa: PLC0415
    from service.benchmarks.hostile import LOADS  # noqa: PLC0415

    unknown = set(only or ()) - set(LOADS)
    if unknown:
        raise typer.BadParameter(f"there is no load {', '.join(sorted(unknown))}: choose from {', '.join(LOADS)}")
    figures = measure(FairRun(only or list(LOADS), seconds, after), Console(stderr=True))
    Console(width=max(LEAST_WIDTH, Console().width)).print(table(figures["rows"]))
    if json_file:
        json_file.write_text(json.dumps(figures, indent=1) + "\n")


def table(rows: list[dict[str, Any]]) -> Table:
    """`before`: the p99 just before the load. Memory is in megabytes: idle or at its peak, after the load, and what the
    settings allow."""
    shown = Table(*COLUMNS, *(f"{part} MB" for part in PARTS), "given back after s", "missed")
    for row in rows:
        most, after = row.get("memory_peak_mb", row["memory_before_mb"]), row.get("memory_after_mb", {})
        bound = row.get("memory_bound_mb", {})
        shown.add_row(
            row["load"],
            *(str(row.get(key, "")) for key in ("query_p50_ms", "query_p99_ms", "calm_query_p99_ms")),
            str(sum(row["query_not_200"].values())),
            *(str(row.get(key, "")) for key in ("healthz_p50_ms", "healthz_p99_ms", "calm_healthz_p99_ms")),
            *(str(row[key]) for key in ("answers_500", "jobs_failed")),
            *(
                f"{most.get(part, 0):.0f}" + (f" → {after[part]:.0f} of {bound[part]:.0f}" if part in after else "")
                for part in PARTS
            ),
            str(row.get("memory_settled_seconds", "")),
            ", ".join(row["missed"]),
        )
    return shown
