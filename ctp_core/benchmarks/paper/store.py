"""Keeps finished cells in a file that is committed beside the report, so that any machine can go on from there."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ctp_core.errors import DataError

Row = dict[str, Any]


class Store:
    """The file `path` has one line for each training: {"key", "paths", figures…}.

    A run that is stopped loses only what was under way, and several runs may write at the same time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, key: str) -> Row | None:
        """The row of a training; None where it is not finished."""
        return self.rows().get(key)

    def rows(self) -> dict[str, Row]:
        """All rows by key; raises DataError where the file does not hold finished cells."""
        try:
            return {row["key"]: row for row in json.loads(self.path.read_text())["cells"]}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{self.path} does not hold finished cells: {error}") from None

    def put(self, row: Row) -> None:
        """Adds a row in place of those that its cells had before, whatever their settings."""
        with self._alone():
            others = [old for old in self.rows().values() if not {*old["paths"]} & {*row["paths"]}]
            self._write(sorted([*others, row], key=lambda one: str(one["paths"][0])))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _write(self, rows: list[Row]) -> None:
        """Writes to another name first, so that a kill leaves the old file or the new one; a row is a line, for git."""
        text = ",\n".join(json.dumps(row, sort_keys=True) for row in rows)
        temporary = self.path.with_name(f".{self.path.name}.part")
        with temporary.open("w") as file:
            file.write(f'{{"cells": [\n{text}\n]}}\n')
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)
