"""Stores that are ready to be written to."""

from pathlib import Path

from service.files.storage import FolderStorage


def folder_store(root: Path) -> FolderStorage:
    storage = FolderStorage(root)
    storage.set_mark("store_of_a_test")
    return storage
