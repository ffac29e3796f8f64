"""`ctp train`: starts a training and watches it."""

import json
import time
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from ctp_client import Client, Job, Model
from service.commands.console import Holdout, Json, Key, Url, connected, err, held_out, name, out, print_json

LOG_SECONDS = 10.0  # between two lines about the same phase
METRICS = ("mrr", "accuracy", "hits@10")


def train(
    kb: Annotated[str, typer.Argument(metavar="KB", help="Id or name of a KB.")],
    model: Annotated[str | None, typer.Option("--name", help="Name of the model; else the KB's.")] = None,
    preset: Annotated[str | None, typer.Option(help="Settings without tuning; `ctp kb presets KB` lists them.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a setting of the preset; method=… chooses a method of `ctp kb presets KB`.",
        ),
    ] = None,
    seeds: Annotated[
        list[int] | None, typer.Option("--seed", help="Seed; may be repeated, then the best on validation is kept.")
    ] = None,
    holdout: Holdout = None,
    detach: Annotated[bool, typer.Option("--detach", help="Print the job's id and do not wait for its end.")] = False,
    url: Url = None,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Train a model on a KB and show its progress; Ctrl-C stops watching, not the training."""
    config = dict(_setting(text) for text in settings or [])
    with connected(url, key) as client:
        training = client.train(kb, model, preset, config, seeds or (0,), holdout=held_out(holdout))
        if detach:
            print_json(training) if as_json else out.print(name(training.job.id))
            return
        if training.job.forecast and not as_json:
            err.print(f"expected: {training.job.forecast}", style="dim")
        reference = f"{training.model.name}@{training.model.version}"
        job = watch(client, training.job.id, reference, quiet=as_json)
        trained = client.models.get(training.model.id)
    if as_json:
        print_json(trained)
    elif job.status == "succeeded":
        out.print(name(f"{reference} is ready{_won(trained, seeds or [])}{_scores(trained)}"))
    if job.status != "succeeded":
        report_failure(job)
        raise typer.Exit(1)


def _won(model: Model, seeds: list[int]) -> str:
    return f" with seed {model.lineage.seed}, the best of {', '.join(map(str, seeds))}" if len(seeds) > 1 else ""


def _scores(model: Model) -> str:
    scores = ", ".join(f"{key} {value:.3f}" for key, value in model.metrics.items() if isinstance(value, float))
    return f"; on validation: {scores}" if scores else ""


def watch(client: Client, job_id: str, title: str, quiet: bool = False) -> Job:
    """Shows progress on stderr until the job ends and returns it; Ctrl-C leaves it running."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[now]}"))
    phase, told = "", float("-inf")
    try:
        with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as bar:
            task = bar.add_task(name(title).plain, total=None, now="queued")
            for event in client.jobs.events(job_id):
                if event.event == "progress":
                    bar.update(task, completed=100 * done(event.data), total=100, now=doing(event.data))
                    if quiet or err.is_terminal:
                        continue
                    # A log has no bar: a line for each phase, and now and then.
                    if event.data.get("phase") != phase or time.monotonic() - told >= LOG_SECONDS:
                        phase, told = str(event.data.get("phase")), time.monotonic()
                        err.print(name(f"{title}: {100 * done(event.data):.0f} %  {doing(event.data)}"))
                elif event.event == "status":
                    bar.update(task, now=_state(event.data))
    except KeyboardInterrupt:
        err.print(name(f"still running: `ctp jobs watch {job_id}` shows it, `ctp jobs cancel {job_id}` stops it"))
        raise typer.Exit(130) from None
    return client.jobs.get(job_id)


def _state(job: dict[str, Any]) -> str:
    return f"waits for {job['waiting_for']}" if job.get("waiting_for") else str(job["status"])


def report_failure(job: Job) -> None:
    detail = (job.error or {}).get("detail", "")
    err.print(name(f"ctp: job {job.id} {job.status}{': ' if detail else ''}{detail}", "red"))


def done(progress: dict[str, Any]) -> float:
    """The share of a job that is done, from 0 to 1; an older service tells only its epochs."""
    epochs = progress["epoch"] / max(1, progress["epochs"])
    return float(progress.get("done", epochs) or 0.0)


def doing(progress: dict[str, Any]) -> str:
    """What a job is doing, how well it does, and how long it will take."""
    parts = [str(progress["text"])] if "text" in progress else []
    if progress.get("phase", "fitting") == "fitting" and progress.get("loss") is not None:
        parts.append(f"loss {progress['loss']:.4g}")
    metrics = progress.get("metrics") or {}
    parts += [f"{metric} {metrics[metric]:.3f}" for metric in METRICS if metric in metrics]
    trials = progress.get("trials") or []
    if trials and progress.get("phase") == "search":
        best = max(trials, key=lambda trial: trial["value"])
        parts.append(f"best so far: {best['metric']} {best['value']:.3f}")
    if progress.get("eta_seconds"):
        parts.append(f"{time_left(progress['eta_seconds'])} left")
    return "  ".join(parts)


def time_left(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _setting(text: str) -> tuple[str, Any]:
    """Parses `epochs=20`: the value as JSON if it is JSON, otherwise as text."""
    key, sign, value = text.partition("=")
    if not sign:
        raise typer.BadParameter(f"--set {text!r} is not KEY=VALUE")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
