"""Stores that are ready to be written to."""

import tempfile
from functools import cache
from pathlib import Path

from service.db.engine import Database, sqlite_file
from service.facts.files import KbFiles
from service.files.storage import FolderStorage
from service.settings import Settings


def folder_store(root: Path) -> FolderStorage:
    storage = FolderStorage(root)
    storage.set_mark("store_of_a_test")
    return storage


@cache
def _files(url: str) -> KbFiles:
    file = sqlite_file(url)
    files = KbFiles.of(Settings(data_dir=file.parent if file else Path(tempfile.mkdtemp(prefix="ctp-test-"))))
    if files.storage.mark() is None:
        files.storage.set_mark("store_of_a_test")
    return files


def files_of(database: Database) -> KbFiles:
    """The files of the KBs in a database: of an SQLite file those beside it, where its service looks for them."""
    return _files(database.engine.url.render_as_string(hide_password=False))
