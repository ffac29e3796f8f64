"""`ctp bench`: the commands behind every figure in docs/results."""

import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

from service.commands.console import Figures
from service.commands.extras import needs
from service.commands.fair import fair
from service.commands.ladder import ladder
from service.commands.paper import paper
from service.commands.peers import peers
from service.commands.scale import scale

if TYPE_CHECKING:
    from ctp_core.base.progress import OnStep
    from ctp_core.base.progress import Progress as Now

Preset = Annotated[str | None, typer.Option(help="Settings to start from, else the default; a wrong one lists all.")]
Only = Annotated[list[int] | None, typer.Option(min=0, help="Run only this seed; may be repeated.")]
Config = Annotated[str, typer.Option(help="JSON settings that override the preset.")]
bench = typer.Typer(
    help="Measure accuracy and speed; each command writes the figures of docs/results.", no_args_is_help=True
)


@bench.callback()
def on_one_core() -> None:
    """Before numpy is loaded, which reads this only then: figures are of one core."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


bench.command()(scale)
bench.command()(fair)
bench.command()(paper)
bench.command()(ladder)
bench.command()(peers)


@bench.command()
@needs("worker")
def links(
    data: Annotated[
        Path, typer.Option(help="Folder that holds one folder per data set; without --dataset, that of your own.")
    ],
    dataset: Annotated[
        str | None,
        typer.Option(
            help="nations, umls, kinship, countries-s1|s2|s3, wn18rr, fb15k-237, or any folder with train, valid and "
            "test as .tsv or .txt."
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="Method for facts; a wrong one lists all.")] = "proofs",
    select: Annotated[str | None, typer.Option(help="For ctp: how rules are made; a wrong one lists all.")] = None,
    preset: Preset = None,
    config: Config = "{}",
    seeds: Annotated[int, typer.Option(min=1)] = 1,
    split: Annotated[
        str, typer.Option(help="test; valid to choose settings; or resplit: new splits without the test facts.")
    ] = "test",
    resume: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints, from which an interrupted run continues.")
    ] = None,
    only: Only = None,
    json_file: Figures = None,
) -> None:
    """Measure link prediction: filtered MRR and Hits@k, or AUC-PR for Countries; CPU time and memory."""
    import torch  # noqa: PLC0415

    from ctp_core.benchmarks.links import LinksRun, run, spread  # noqa: PLC0415
    from ctp_core.presets import DEFAULT_PRESET  # noqa: PLC0415

    torch.set_num_threads(1)
    settings = parsed(config) | ({"select": select} if select else {})
    data, dataset = (data, dataset) if dataset else (data.resolve().parent, data.resolve().name)
    task = LinksRun(data, dataset, model, preset or DEFAULT_PRESET, settings, seeds, split, resume, tuple(only or ()))
    with epochs_shown(f"{dataset} {model}") as show:
        figures = run(task, show)
    for name, values in figures.items():
        if isinstance(values, list) and name != "seeds":
            typer.echo(f"{name:20} {spread(values)}")
    write(figures, json_file)


@bench.command()
@needs("worker")
def inductive(
    data: Annotated[Path, typer.Option(help="Folder that holds one folder per data set.")],
    dataset: Annotated[
        str,
        typer.Option(
            help="The folder that is trained on; beside it stands one of the same name with _ind at its end, which is "
            "answered about. Both have train, valid and test as .tsv or .txt."
        ),
    ],
    model: Annotated[str, typer.Option(help="Method for facts; a wrong one lists all.")] = "frontier",
    preset: Preset = None,
    config: Config = "{}",
    seeds: Annotated[int, typer.Option(min=1)] = 1,
    split: Annotated[str, typer.Option(help="test; or valid, to choose settings.")] = "test",
    resume: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints, from which an interrupted run continues.")
    ] = None,
    only: Only = None,
    json_file: Figures = None,
) -> None:
    """Measure answers about entities never seen: train on one KB, rank the facts of another; MRR, Hits@10."""
    import torch  # noqa: PLC0415

    from ctp_core.benchmarks.inductive import InductiveRun, run  # noqa: PLC0415
    from ctp_core.benchmarks.links import spread  # noqa: PLC0415
    from ctp_core.presets import DEFAULT_PRESET  # noqa: PLC0415

    torch.set_num_threads(1)
    chosen = preset or DEFAULT_PRESET
    task = InductiveRun(data, dataset, model, chosen, parsed(config), seeds, split, resume, tuple(only or ()))
    with epochs_shown(f"{dataset} {model}") as show:
        figures = run(task, show)
    for name, values in figures.items():
        if isinstance(values, list) and name != "seeds":
            typer.echo(f"{name:20} {spread(values)}")
    write(figures, json_file)


@bench.command()
@needs("worker")
def predictions(
    data: Annotated[Path, typer.Option(help="Folder that holds one folder per data set.")],
    dataset: Annotated[str, typer.Option(help="A folder with train, valid and test as .tsv or .txt.")] = "umls",
    model: Annotated[str, typer.Option(help="Method for facts; a wrong one lists all.")] = "proofs",
    preset: Preset = None,
    config: Config = "{}",
    top_k: Annotated[int, typer.Option(min=1, help="Answers to a question.")] = 10,
    most_seconds: Annotated[float, typer.Option(min=0, help="CPU seconds after which a row ends.")] = 60.0,
    json_file: Figures = None,
) -> None:
    """Measure predictions in bulk: questions a second, with and without proofs, on one core."""
    import torch  # noqa: PLC0415

    from ctp_core.benchmarks.links import LinksRun  # noqa: PLC0415
    from ctp_core.benchmarks.predictions import run  # noqa: PLC0415
    from ctp_core.presets import DEFAULT_PRESET  # noqa: PLC0415

    torch.set_num_threads(1)
    task = LinksRun(data, dataset, model, preset or DEFAULT_PRESET, parsed(config))
    with epochs_shown(f"{dataset} {model}") as show:
        figures = run(task, top_k, most_seconds, show)
    for row in figures["rows"]:
        typer.echo(
            f"score >= {row['min_score']}, proofs {row['proofs']}: {row['questions']:,} questions, "
            f"{row['rows']:,} rows, "
            f"{row['questions_per_cpu_second']:,.0f} questions per CPU second ({row['wall_seconds']:.1f} s)"
        )
    write(figures, json_file)


@bench.command()
@needs("worker")
def clutrr(
    data: Annotated[Path, typer.Option(help="Folder that holds clutrr/<dataset>.zip.")],
    dataset: Annotated[str, typer.Option(help="089907f8, db9b8f04, or family: our own generator.")],
    model: Annotated[str, typer.Option(help="Method for graphs; a wrong one lists all.")] = "ctp",
    select: Annotated[str, typer.Option(help="For ctp: how rules are made; a wrong one lists all.")] = "attentive",
    prover: Annotated[str | None, typer.Option(help="tabled or exact; what the preset says where not given.")] = None,
    preset: Preset = None,
    config: Config = "{}",
    depth: Annotated[
        int | None, typer.Option(help="Depth of the search for answers; default: until nothing new is proved.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1)] = 10,
    split: Annotated[str, typer.Option(help="test, or valid to choose settings.")] = "test",
    resume: Annotated[
        Path | None, typer.Option(help="Folder that keeps the figures of finished seeds; these are not run again.")
    ] = None,
    only: Only = None,
    json_file: Figures = None,
) -> None:
    """Measure relation prediction on family graphs: accuracy by number of edges; CPU time and memory."""
    import torch  # noqa: PLC0415

    from ctp_core.benchmarks.clutrr import ClutrrRun, run  # noqa: PLC0415
    from ctp_core.presets import DEFAULT_PRESET  # noqa: PLC0415

    torch.set_num_threads(1)
    chosen = preset or DEFAULT_PRESET
    run_seeds = tuple(only or ())
    task = ClutrrRun(
        data, dataset, model, select, prover, chosen, parsed(config), seeds, depth, split, resume, run_seeds
    )
    with epochs_shown(f"{dataset} {select if model == 'ctp' else model}") as show:
        figures = run(task, show)
    for length, average in figures["accuracy_mean"].items():
        typer.echo(f"{length:>3} edges  {average:.4f} ± {figures['accuracy_std'][length]:.4f}")
    typer.echo(f"training {max(figures['train_cpu_seconds']):.1f} s of CPU at most")
    write(figures, json_file)


@bench.command()
@needs("worker")
def queries(
    data: Annotated[
        Path, typer.Option(help="Folder that holds one folder per data set; without --dataset, that of your own.")
    ],
    dataset: Annotated[str | None, typer.Option(help="As in `ctp bench links`.")] = None,
    model: Annotated[str, typer.Option(help="Method for facts; a wrong one lists all.")] = "hybrid",
    preset: Preset = None,
    config: Config = "{}",
    split: Annotated[str, typer.Option(help="test; or valid to choose settings.")] = "test",
    questions: Annotated[int, typer.Option(min=1, help="Questions of each shape.")] = 100,
    tnorm: Annotated[str, typer.Option(help="product, min or lukasiewicz.")] = "product",
    width: Annotated[
        int, typer.Option(min=1, help="Most candidates of a variable; as many as entities: exact.")
    ] = 1000,
    resume: Annotated[Path | None, typer.Option(help="Folder for checkpoints, as in `ctp bench links`.")] = None,
    json_file: Figures = None,
) -> None:
    """Measure logical questions: eleven shapes whose answers need a withheld fact; filtered MRR and time of each."""
    import torch  # noqa: PLC0415

    from ctp_core.benchmarks.links import LinksRun  # noqa: PLC0415
    from ctp_core.benchmarks.queries import QueriesRun, run  # noqa: PLC0415
    from ctp_core.presets import DEFAULT_PRESET  # noqa: PLC0415

    torch.set_num_threads(1)
    data, dataset = (data, dataset) if dataset else (data.resolve().parent, data.resolve().name)
    links = LinksRun(data, dataset, model, preset or DEFAULT_PRESET, parsed(config), split=split, resume=resume)
    with epochs_shown(f"{dataset} {model}") as show:
        figures = run(QueriesRun(links, questions, tnorm, width), show)
    for shape, row in figures["shapes"].items():
        told = f"mrr {row['mrr']:.4f}  p50 {row['p50_ms']:7.1f} ms" if row["num_questions"] else "no such question"
        typer.echo(f"{shape:4} {row['num_questions']:4} questions  {told}")
    write(figures, json_file)


def parsed(config: str) -> dict[str, Any]:
    try:
        settings = json.loads(config)
    except ValueError as error:
        raise typer.BadParameter(f"--config {config!r} is not JSON ({error})") from None
    if not isinstance(settings, dict):
        raise typer.BadParameter(f'--config {config!r} is not an object such as {{"epochs": 3}}')
    return settings


@contextmanager
def epochs_shown(title: str) -> "Iterator[OnStep]":
    """Shows a bar with the epochs and the loss or the phase of the current seed; yields what updates it."""
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), "{task.fields[shown]}")

    def shown(now: "Now") -> str:
        return now.phase if now.loss is None else f"loss {now.loss:.3g}"

    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task(title, total=None, shown="")
        yield lambda now: bar.update(line, completed=now.epoch, total=now.epochs, shown=shown(now))


def write(figures: dict[str, Any], json_file: Path | None) -> None:
    """Writes the figures as JSON, with the command that made them."""
    figures["command"] = f"ctp {shlex.join(sys.argv[1:])}"
    if json_file:
        json_file.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")


@bench.command()
@needs("all")
def serve(
    json_file: Figures = None,
    kb: Annotated[list[str] | None, typer.Option(help="Sample KBs to train on and query; may be repeated.")] = None,
    seconds: Annotated[float, typer.Option(help="Seconds for which each row is measured.", min=1)] = 8.0,
) -> None:
    """Measure how fast the embedded service answers, against the same model called in Python."""
    from service.benchmarks.serve import measure  # noqa: PLC0415

    figures = measure(kb or ["family", "umls"], seconds, Console(stderr=True))
    rows = json.dumps(figures.pop("rows"), indent=1)
    typer.echo(json.dumps(figures, indent=1))
    if json_file:
        json_file.write_text(rows + "\n")
