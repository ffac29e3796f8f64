"""`ctp bench`: every figure in docs/results comes from here."""

import typer

bench = typer.Typer(
    help="Measure accuracy and speed; each command writes the figures of docs/results.", no_args_is_help=True
)


@bench.callback()
def group() -> None:
    """Keeps `ctp bench NAME` a group however many commands there are."""
