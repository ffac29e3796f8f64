"""Commands that need more than the client: what `pip install ctp` leaves out is named, not a module that is missing."""

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Literal, ParamSpec, TypeVar

import typer

Extra = Literal["service", "worker", "all"]
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

STORES = ("celery", "sqlalchemy", "structlog")
# A few modules of each extra, any of which may be there without the others: torch is in many notebooks.
MODULES: dict[Extra, tuple[str, ...]] = {
    "service": (*STORES, "alembic", "fastapi", "uvicorn"),
    "worker": (*STORES, "faiss", "safetensors", "scipy", "torch"),
}
MODULES["all"] = MODULES["service"] + MODULES["worker"]
WORDS: dict[Extra, str] = {"service": "the service", "worker": "the worker", "all": "the service and its workers"}
USAGE = 2  # exit code of a command that cannot be run as it was asked for


def needs(*sufficient: Extra) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """A command that runs where any of the extras is installed, and otherwise says how to install the first."""

    def decorate(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @wraps(command)
        def checked(*words: Parameters.args, **options: Parameters.kwargs) -> Result:
            if not any(map(installed, sufficient)):
                extra = sufficient[0]
                typer.echo(f"ctp: this command needs {WORDS[extra]}: pip install 'ctp[{extra}]'", err=True)
                raise typer.Exit(USAGE)
            return command(*words, **options)

        return checked

    return decorate


def installed(extra: Extra) -> bool:
    return all(find_spec(module) for module in MODULES[extra])
