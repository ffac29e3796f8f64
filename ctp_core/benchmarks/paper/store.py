"""Finished cells on disk, one file each: a run that is stopped loses only the cells that were under way."""

import json
import os
from pathlib import Path
from typing import Any


class Store:
    """`folder`/KEY.json."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> dict[str, Any] | None:
        """The figures of a cell; None where it is not finished."""
        try:
            found: dict[str, Any] = json.loads((self.folder / f"{key}.json").read_text())
        except FileNotFoundError:
            return None
        return found

    def put(self, key: str, figures: dict[str, Any]) -> None:
        """Under another name first: a kill leaves the old file, the new one or none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / f".{key}.{os.getpid()}.part"
        temporary.write_text(json.dumps(figures) + "\n")
        temporary.replace(self.folder / f"{key}.json")
