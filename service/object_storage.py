"""Model files in an object store, through fsspec: S3 and whatever else it knows."""

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from fsspec.core import url_to_fs

from ctp_core.errors import ArtifactError
from ctp_core.manifest import MANIFEST
from service.storage import Entry, Files, checked, key_of


class ObjectStorage:
    """There is no rename: each object is put whole, the manifest last, and read back before its row is written."""

    def __init__(self, url: str) -> None:
        # Lists are never remembered: other machines write too. Nor is a connection made for other settings taken over.
        filesystem, root = url_to_fs(url, use_listings_cache=False, skip_instance_cache=True)
        self.filesystem: Any = filesystem
        self.root: str = root.rstrip("/")

    def put(self, owner: str, files: Files) -> str:
        key = key_of(owner, files)
        try:
            for name in sorted(files, key=lambda name: name == MANIFEST):
                self.filesystem.pipe_file(self._path(f"{key}/{name}"), files[name])
            self.get(key)
        except BaseException:
            self.delete(key)
            raise
        return key

    def get(self, key: str) -> Files:
        try:
            names = [path.rsplit("/", 1)[1] for path in self.filesystem.ls(self._path(key), detail=False)]
            files = {name: self.filesystem.cat_file(self._path(f"{key}/{name}")) for name in names}
        except FileNotFoundError:
            raise ArtifactError(f"the files {key!r} are gone") from None
        return checked(key, files)

    def delete(self, owner: str) -> None:
        for path in self.filesystem.find(self._path(owner)):
            self.filesystem.rm_file(path)

    def entries(self) -> Iterator[Entry]:
        found: dict[str, Entry] = {}
        for path, detail in self.filesystem.find(self.root, detail=True).items():
            key = path.removeprefix(self.root).lstrip("/").rsplit("/", 1)[0]
            before = found.get(key, Entry(key, 0, 0.0))
            modified = max(before.modified, _modified(detail))
            found[key] = Entry(key, before.num_bytes + int(detail["size"]), modified)
        yield from found.values()

    def _path(self, key: str) -> str:
        return f"{self.root}/{key}"


def _modified(detail: dict[str, Any]) -> float:
    """Where a store does not tell, now: an object of unknown age is never taken for an old one."""
    modified = detail.get("LastModified") or detail.get("created")
    return modified.timestamp() if isinstance(modified, datetime) else time.time()
