"""`ctp jobs`: lists, shows, watches and cancels training jobs."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from ctp_client import Job, Trial
from service.commands.console import (
    Json,
    Key,
    Limit,
    Url,
    connected,
    name,
    out,
    print_json,
    print_newest,
    short,
    status,
    table,
    to_the_minute,
)
from service.commands.train import doing, done, report_failure
from service.commands.train import watch as follow

jobs = typer.Typer(help="Training jobs: list, watch, cancel.", no_args_is_help=True)
Reference = Annotated[str, typer.Argument(metavar="JOB", help="Id of a job.")]


@jobs.command("list")
def list_jobs(limit: Limit = 20, url: Url = None, key: Key = None, as_json: Json = False) -> None:
    """List your jobs, newest first."""
    with connected(url, key) as client:
        listed = list(client.jobs.list(limit + 1))
    print_newest(listed, limit, as_json, ("model", "status", "epoch", "job", "created (UTC)"), _row, ("epoch",))


@jobs.command()
def show(job: Reference, url: Url = None, key: Key = None, as_json: Json = False) -> None:
    """Show the state of one job."""
    with connected(url, key) as client:
        found = client.jobs.get(job)
    if as_json:
        print_json(found)
        return
    words = (name(found.model, "bold"), status(found.status), f"attempt {found.attempt}", f"epoch {_epochs(found)}")
    out.print(*words, name(found.id, "dim"))
    if found.status == "running" and found.progress:
        out.print(f"{100 * done(found.progress):.0f} %", name(doing(found.progress)))
    if found.progress.get("trials"):
        print_trials([Trial.model_validate(trial) for trial in found.progress["trials"]])
    if found.waiting_for:
        out.print(f"waits for {found.waiting_for}, which cannot be reached now", style="yellow")
    if found.error:
        report_failure(found)


@jobs.command()
def watch(job: Reference, url: Url = None, key: Key = None, as_json: Json = False) -> None:
    """Show a job's progress until it ends; `--json` prints each event as one line."""
    with connected(url, key) as client:
        if as_json:
            for event in client.jobs.events(job):
                typer.echo(event.model_dump_json())
            found = client.jobs.get(job)
        else:
            found = follow(client, job, job)
            out.print(name(found.id, "bold"), status(found.status))
    if found.status != "succeeded":
        report_failure(found)
        raise typer.Exit(1)


@jobs.command()
def cancel(job: Reference, url: Url = None, key: Key = None, as_json: Json = False) -> None:
    """Cancel a queued or running job; its worker is free within seconds."""
    with connected(url, key) as client:
        found = client.jobs.cancel(job)
    if as_json:
        print_json(found)
    else:
        out.print(name(found.id, "bold"), status(found.status))


def _row(job: Job) -> tuple[str | Text, ...]:
    return name(job.model, "bold"), status(job.status), _epochs(job), job.id, to_the_minute(job.created_at)


def _epochs(job: Job) -> str:
    return f"{job.progress['epoch']}/{job.progress['epochs']}" if job.progress.get("epochs") else ""


def print_trials(trials: Sequence[Trial]) -> None:
    """Prints the trials in the order in which they were made; the chosen settings are bold."""
    settings = list(dict.fromkeys(setting for trial in trials for setting in trial.settings))
    columns = ("tried", *settings, trials[0].metric, "CPU s", "")
    out.print(
        table(columns, [_trial_row(number, trial, settings) for number, trial in enumerate(trials, 1)], columns[:-1])
    )


def _trial_row(number: int, trial: Trial, settings: Sequence[str]) -> tuple[Text, ...]:
    style = "bold" if trial.chosen else ""
    values: list[Any] = [trial.settings.get(setting, "") for setting in settings]
    cells = [str(number), *map(short, values), f"{trial.value:.3f}", f"{trial.cpu_seconds:.1f}"]
    return *(name(cell, style) for cell in cells), Text("chosen" if trial.chosen else "", "green")
