"""The command line: `ctp` and all its commands."""

import sys
from typing import Annotated

import typer

from ctp_core import __version__
from ctp_core.errors import CtpError
from service.commands import processes
from service.commands.alive import alive
from service.commands.ask import ask
from service.commands.bench import bench
from service.commands.evaluate import evaluate
from service.commands.gc import gc
from service.commands.jobs import jobs
from service.commands.kb import kb
from service.commands.keys import keys
from service.commands.models import models
from service.commands.predict import predict
from service.commands.query import query
from service.commands.rules import rules
from service.commands.train import train
from service.errors import ServiceError
from service.settings import UserError, settings_table

app = typer.Typer(
    help="Answers with proofs: train and serve Conditional Theorem Provers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ctp {__version__}")
        raise typer.Exit


@app.callback()
def every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Takes the options of `ctp` itself."""


app.command()(train)
app.command()(evaluate)
app.command()(predict)
app.command()(query)
app.command()(ask)
app.command()(rules)
for name, group in {"kb": kb, "jobs": jobs, "models": models}.items():
    app.add_typer(group, name=name)
for command in (processes.up, processes.api, processes.worker, processes.dispatch, processes.migrate, alive, gc):
    app.command()(command)


@app.command()
def settings() -> None:
    """List every setting with its default and its meaning."""
    typer.echo(settings_table())


app.add_typer(bench, name="bench")
app.add_typer(keys, name="keys")


def main() -> None:
    try:
        app()
    except (UserError, ServiceError, CtpError) as error:
        typer.echo(f"ctp: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
