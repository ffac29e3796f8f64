"""`ctp`: the one program."""

import typer

from service.commands.bench import bench

app = typer.Typer(help="Answers with proofs: train and serve Conditional Theorem Provers.", no_args_is_help=True)
app.add_typer(bench, name="bench")


def main() -> None:
    app()


if __name__ == "__main__":
    main()
