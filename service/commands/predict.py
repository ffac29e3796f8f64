"""`ctp predict`: every missing fact of a predicate that a model believes, in a file."""

from pathlib import Path
from typing import Annotated

import typer

from ctp_client import Prediction
from service.commands.console import Json, Key, Url, connected, err, name, out, print_json
from service.commands.train import report_failure, watch

FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def _writable(path: Path) -> Path:
    """Checks the file before the work is done; raises BadParameter."""
    if path.suffix.lower() not in FORMATS:
        raise typer.BadParameter(f"{path.name} does not say its format: end it with {', '.join(FORMATS)}")
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder: name a file")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.absolute().parent}: make it first")
    return path


def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="name, name@3, name@alias or id.")],
    predicate: Annotated[str, typer.Option(help="Predicate of the facts to predict.")],
    to: Annotated[
        Path, typer.Option("--out", callback=_writable, help="File to write: .parquet, .csv or .jsonl.", metavar="FILE")
    ],
    subjects: Annotated[
        list[str] | None, typer.Option("--subject", help="Ask about this subject alone; may be repeated.")
    ] = None,
    objects: Annotated[
        list[str] | None, typer.Option("--object", help="Ask about this object alone; may be repeated.")
    ] = None,
    kb: Annotated[str | None, typer.Option(help="Another KB to ask about; else that of the model.")] = None,
    min_score: Annotated[float, typer.Option(min=0, max=1, help="Keep rows with at least this score.")] = 0.5,
    top_k: Annotated[int, typer.Option(min=1, max=1000, help="Keep so many answers to a question.")] = 10,
    proofs: Annotated[bool, typer.Option("--proofs", help="With the best proof of each row.")] = False,
    known: Annotated[bool, typer.Option("--known", help="Facts of the KB as well.")] = False,
    url: Url = None,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Ask a model for every missing fact of a predicate, and write those it believes to a file."""
    options = {"min_score": min_score, "top_k_per_question": top_k, "proofs": int(proofs), "exclude_known": not known}
    with connected(url, key) as client:
        started = client.predictions.create(
            model, predicate, subjects or None, objects or None, kb=kb, format=FORMATS[to.suffix.lower()], **options
        )
        job = watch(client, started.id, f"{predicate} by {started.model}", quiet=as_json)
        found = client.predictions.get(started.id)
        if job.status == "succeeded":
            client.predictions.download(started.id, to)
    print_json(found) if as_json else None
    if job.status != "succeeded":
        report_failure(job)
        raise typer.Exit(1)
    if not as_json:
        out.print(name(f"{found.num_rows:,} rows from {found.num_questions:,} questions in {to}"))
        _warn(found)


def _warn(found: Prediction) -> None:
    if found.truncated:
        err.print(name(f"not all questions were asked: {found.stopped_by} ended it", "yellow"))
