"""`ctp bench scale`."""

import json
from typing import Annotated

import typer

from service.commands.console import Figures
from service.commands.extras import needs


@needs("all")
def scale(
    jobs: Annotated[int, typer.Option(help="Training jobs in each round.", min=2)] = 6,
    epochs: Annotated[int, typer.Option(help="Epochs of each job.", min=1)] = 12,
    query_seconds: Annotated[float, typer.Option(help="Seconds of queries in each round.", min=1)] = 10.0,
    rounds: Annotated[int, typer.Option(help="Rounds on one and on two workers, in turn.", min=1)] = 3,
    json_file: Figures = None,
) -> None:
    """Training and queries on one and two workers of one thread each, on PostgreSQL and Redis."""
    from service.benchmarks.scale import ScaleRun, measure  # noqa: PLC0415

    report = measure(ScaleRun(jobs, epochs, query_seconds, rounds)).report()
    for name in ("jobs_per_minute", "goals_per_second"):
        for workers, values in report[name].items():
            typer.echo(f"{name:18} {workers} workers  {', '.join(f'{value:.1f}' for value in values)}")
    typer.echo(f"training {report['training_speed_up']:.2f}x, queries {report['query_speed_up']:.2f}x")
    typer.echo(f"load average before each round: {report['load_average']}")
    if json_file:
        json_file.write_text(json.dumps(report, indent=1) + "\n")
