"""`ctp models`: lists, compares, aliases, exports, imports and deletes models."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ctp_client import Model
from service.commands.comparison import print_comparison
from service.commands.console import (
    Json,
    Key,
    Limit,
    Url,
    connected,
    err,
    name,
    out,
    print_json,
    print_newest,
    status,
    table,
    to_the_minute,
)
from service.commands.jobs import print_trials

models = typer.Typer(help="Models: versions, aliases, export and import.", no_args_is_help=True)
Reference = Annotated[str, typer.Argument(metavar="MODEL", help="id, name, name@3 or name@champion.")]


@models.command("list")
def list_models(
    named: Annotated[str | None, typer.Argument(metavar="NAME", help="Only versions of this model.")] = None,
    limit: Limit = 50,
    url: Url = None,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """List model versions, newest first."""
    with connected(url, key) as client:
        listed = list(client.models.list(named, limit + 1))
    columns = ("model", "status", "KB", "method", "on validation", "aliases", "created (UTC)")
    print_newest(listed, limit, as_json, columns, _row)


@models.command()
def show(model: Reference, url: Url = None, key: Key = None, as_json: Json = False) -> None:
    """Show one version: its settings, metrics and lineage."""
    with connected(url, key) as client:
        found = client.models.get(model)
    if as_json:
        print_json(found)
        return
    out.print(name(found.reference, "bold"), status(found.status), found.variant, f"preset {found.preset}")
    out.print(f"answers {'with' if found.explainable else 'without'} proofs", style="dim")
    rows = [(key, name(str(value))) for key, value in found.config.items()]
    rows += [(f"{key} on validation", name(str(value))) for key, value in found.metrics.items()]
    rows += [(key, name(str(value))) for key, value in found.lineage.model_dump().items()]
    out.print(table(("", ""), rows))
    if found.trials:
        out.print("\nwhat was tried on this KB to find the settings:", style="dim")
        print_trials(found.trials)


@models.command()
def compare(
    references: Annotated[list[str], typer.Argument(metavar="MODEL...")],
    questions: Annotated[
        int, typer.Option(min=0, max=1000, help="Questions from the test split to ask every model.")
    ] = 100,
    disagreements: Annotated[
        int, typer.Option(min=0, max=1000, help="Maximum number of questions with differing answers to list.")
    ] = 20,
    url: Url = None,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Compare versions: settings, metrics, how often each is right, and where they disagree."""
    with connected(url, key) as client:
        found = client.models.compare(references, questions, disagreements)
    print_json(found) if as_json else print_comparison(found)


@models.command()
def alias(
    model: Reference,
    alias: Annotated[str, typer.Argument(help="Name of the alias, e.g. champion.")],
    url: Url = None,
    key: Key = None,
) -> None:
    """Point an alias to this version from now on."""
    with connected(url, key) as client:
        found = client.models.get(model)
        client.models.set_alias(found, alias)
    err.print(name(f"{found.name}@{alias} is version {found.version}"))


@models.command()
def export(
    model: Reference,
    to: Annotated[Path, typer.Argument(help="Archive to write.")],
    url: Url = None,
    key: Key = None,
) -> None:
    """Write a model to one archive that any service can import."""
    with connected(url, key) as client:
        client.models.export(model, to)
    err.print(name(f"wrote {to}"))


@models.command("import")
def import_model(
    archive: Annotated[Path, typer.Argument(exists=True, dir_okay=False)],
    named: Annotated[
        str | None, typer.Option("--name", help="Name of the model here; default: the name in the archive.")
    ] = None,
    url: Url = None,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Register an exported archive as a new version."""
    with connected(url, key) as client:
        made = client.models.load(archive, named)
    print_json(made) if as_json else out.print(name(made.reference, "bold"), status(made.status))


@models.command()
def delete(
    model: Reference,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Delete the newest version of a bare name without asking.")
    ] = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Delete a version that no alias points to; a bare name means the newest version, after a question."""
    with connected(url, key) as client:
        found = client.models.get(model)
        if model == found.name and not yes:
            typer.confirm(f"Delete {found.reference}, the newest version of {found.name}?", abort=True)
        client.models.delete(found.id)
    err.print(name(f"deleted {found.reference}"))


def _row(model: Model) -> tuple[str | Text, ...]:
    return (
        name(model.reference, "bold"),
        status(model.status),
        name(model.lineage.kb_name or "–"),
        model.variant,
        _metric(model),
        ", ".join(model.aliases),
        to_the_minute(model.created_at),
    )


def _metric(model: Model) -> str:
    """Formats the first metric, by which the model was chosen."""
    return next((f"{key} {value:.3f}" for key, value in model.metrics.items() if isinstance(value, float)), "")
