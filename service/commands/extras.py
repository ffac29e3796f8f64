"""Guards commands that need more than the client: they name the missing extra instead of a missing module."""

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Literal, ParamSpec, TypeVar

import typer

Extra = Literal["service", "worker", "all"]
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

STORES = ("celery", "sqlalchemy", "structlog")
# Several modules of each extra: one of them, such as torch, may be installed without the extra.
MODULES: dict[Extra, tuple[str, ...]] = {
    "service": (*STORES, "alembic", "fastapi", "uvicorn"),
    "worker": (*STORES, "faiss", "safetensors", "scipy", "torch"),
}
MODULES["all"] = MODULES["service"] + MODULES["worker"]
WORDS: dict[Extra, str] = {"service": "the service", "worker": "the worker", "all": "the service and its workers"}
USAGE = 2  # exit code of a command that cannot run as requested


def needs(*sufficient: Extra) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Makes a command run only if one of the extras is installed; otherwise it says how to install the first."""

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
