"""Shared by the client commands: the connection, tables or JSON, and errors that say what to do."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ctp_client import ApiError, Client, ClientError

Url = Annotated[str | None, typer.Option("--url", envvar="CTP_URL", help="Address of the service.")]
Key = Annotated[str | None, typer.Option("--key", envvar="CTP_KEY", help="Your key, if the service needs one.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


Holdout = Annotated[
    list[str] | None,
    typer.Option(
        "--holdout",
        metavar="SPLIT=SHARE",
        help="Hold out a share of a KB that is one file, such as test=0.1; may be repeated, for valid and test.",
    ),
]


def held_out(given: list[str] | None) -> dict[str, float]:
    """Parses `test=0.1`; raises BadParameter."""
    shares: dict[str, float] = {}
    for text in given or []:
        split, _, share = text.partition("=")
        try:
            shares[split] = float(share)
        except ValueError:
            raise typer.BadParameter(f"--holdout {text!r} is not SPLIT=SHARE, such as test=0.1") from None
    return shares


def _in_a_folder(path: Path | None) -> Path | None:
    """Checks that the file can be written, before the work is done."""
    if path is not None and path.is_dir():
        raise typer.BadParameter(f"{path} is a folder: name a file")
    if path is not None and not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.absolute().parent}: make it first")
    return path


Figures = Annotated[Path | None, typer.Option("--json", help="File to write the figures to.", callback=_in_a_folder)]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of rows.")]

OLDER = "and older ones: --limit shows more"

Item = TypeVar("Item", bound=BaseModel)

COMMANDS = {
    r"GET /kbs lists": "`ctp kb list` lists",
    r"GET /kbs/(\S+)/entities lists those": r"`ctp kb facts \1` shows those",
    r"GET /models lists": "`ctp models list` lists",
    r"GET /jobs lists": "`ctp jobs list` lists",
    r"GET /jobs/(\S+) tells": r"`ctp jobs show \1` tells",
    r"\bquery\.method:": "--method:",
    r"in `ids`, separated by commas": "to compare",
    r"give the facts of the graph in `facts`": "give the facts of the graph with --fact",
    r"GET /models/\{id\}/export makes": "`ctp models export` makes",
    r"send (?:a|the) key as `Authorization: Bearer ctp_…`": "give your key with --key or CTP_KEY",
    r"\bconfig\.(\w+): there is no such key": r"--set \1: there is no such setting",
    r"\bconfig\.(\w+):": r"--set \1:",
}
WIDE = 200  # columns of output to a file or a pipe, so that nothing is cut off
out = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
err = Console(highlight=False, stderr=True, width=None if sys.stderr.isatty() else WIDE)


@contextmanager
def connected(url: str | None, key: str | None) -> Iterator[Client]:
    """Yields a client; prints an error in one line and exits with 1."""
    try:
        with Client(url, key) as client:
            yield client
    except ApiError as error:
        err.print(Text(f"ctp: {printable(in_commands(error.detail))}", "red"))
        raise typer.Exit(1) from None
    except (ClientError, OSError) as error:
        err.print(Text(f"ctp: {printable(str(error))}", "red"))
        raise typer.Exit(1) from None


def in_commands(detail: str) -> str:
    """Rewrites advice of the service for the terminal: calls of the API become commands."""
    for call, command in COMMANDS.items():
        detail = re.sub(call, command, detail)
    return detail


def printable(name: str) -> str:
    """Escapes control characters and text-direction marks, so that a name cannot control the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def name(text: str, style: str = "") -> Text:
    """Returns a name as plain text that is never read as markup."""
    return Text(printable(text), style)


def print_json(value: BaseModel | Iterable[BaseModel] | dict[str, Any] | list[Any]) -> None:
    """Prints one JSON document; several items become one array."""
    if isinstance(value, BaseModel):
        data: Any = value.model_dump(mode="json")
    elif isinstance(value, dict):
        data = value
    else:
        data = [item.model_dump(mode="json") if isinstance(item, BaseModel) else item for item in value]
    typer.echo(json.dumps(data, ensure_ascii=False, indent=2))


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], numbers: Sequence[str] = ()) -> Table:
    """Makes a plain table; the columns in `numbers` are right-aligned."""
    made = Table(box=None, pad_edge=False, header_style="bold dim", padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def print_newest(
    listed: Sequence[Item],
    limit: int,
    as_json: bool,
    columns: Sequence[str],
    row: Callable[[Item], Sequence[str | Text]],
    numbers: Sequence[str] = (),
) -> None:
    """Prints the first `limit` items; a table says so where there are more."""
    if as_json:
        print_json(listed[:limit])
        return
    out.print(table(columns, map(row, listed[:limit]), numbers))
    if len(listed) > limit:
        out.print(OLDER, style="dim")


def short(value: Any) -> str:
    """Formats a setting or a metric for a table."""
    return f"{value:.4g}" if isinstance(value, float) else "–" if value is None else str(value)


def strength(score: float) -> Text:
    """Formats a number in [0, 1] in a colour that shows its strength."""
    style = "green" if score >= 0.8 else "yellow" if score >= 0.4 else "red"
    return Text(f"{score:.3f}", style)


STATUS_STYLES = {
    "ready": "green",
    "succeeded": "green",
    "running": "cyan",
    "queued": "blue",
    "pending": "blue",
    "failed": "red",
    "cancelled": "dim",
}


def status(word: str) -> Text:
    return Text(word, STATUS_STYLES.get(word, ""))


def to_the_minute(then: datetime | None) -> str:
    """Formats a time as `2026-01-01 12:00`, in UTC."""
    return "" if then is None else f"{then:%Y-%m-%d %H:%M}"
