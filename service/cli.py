"""`ctp`: the one program."""

import typer

from service.commands import processes
from service.commands.bench import bench
from service.settings import settings_table

app = typer.Typer(
    help="Answers with proofs: train and serve Conditional Theorem Provers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (processes.up, processes.api, processes.worker, processes.dispatch, processes.migrate):
    app.command()(command)


@app.command()
def settings() -> None:
    """List every setting with its default and its meaning."""
    typer.echo(settings_table())


app.add_typer(bench, name="bench")


def main() -> None:
    app()


if __name__ == "__main__":
    main()
