"""Stores files in an object store through fsspec: S3, and whatever else fsspec supports."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import ClientError
from botocore.exceptions import BotoCoreError, NoCredentialsError, ParamValidationError
from botocore.parsers import ResponseParserError
from fsspec.core import url_to_fs
from urllib3.exceptions import HTTPError

from ctp_core.errors import ArtifactError
from ctp_core.manifest import MANIFEST
from service.files.storage import (
    MARK,
    PIECE_BYTES,
    Entry,
    Files,
    StorageAway,
    StorageError,
    StorageFull,
    StorageRefused,
    checked,
    checked_owner,
    decode_mark,
    encode_mark,
    entry_key,
    key_of,
    key_of_manifest,
    members,
    storage_error,
    unmarked,
)

# Our callers do the waiting rather than the library, because they can be told to stop.
S3_OPTIONS = {"config_kwargs": {"connect_timeout": 5, "read_timeout": 20, "retries": {"max_attempts": 1}}}
S3_RETRIES = 2
LIBRARY_ERRORS = (BotoCoreError, ResponseParserError, ClientError, HTTPError)
# Codes of S3-compatible servers for a full disk; S3 itself is never full.
FULL_CODES = ("StorageFull", "QuotaExceeded")


class ObjectStorage:
    """Writes each object whole, the manifest last, and reads all of them back: object stores have no atomic rename."""

    def __init__(self, url: str) -> None:
        # Listings are not cached, since other machines write too; connections are not shared with other settings.
        options = S3_OPTIONS if urlsplit(url).scheme == "s3" else {}
        filesystem, root = url_to_fs(url, use_listings_cache=False, skip_instance_cache=True, **options)
        filesystem.retries = S3_RETRIES
        self.filesystem: Any = filesystem
        self.root: str = root.rstrip("/")

    def put(self, owner: str, files: Files) -> str:
        key = key_of(owner, files)
        self.check()
        try:
            with self._reaching():
                for name in sorted(files, key=lambda name: name == MANIFEST):
                    self.filesystem.pipe_file(self._path(f"{key}/{name}"), files[name])
            self.get(key)
        except FileNotFoundError as error:
            raise StorageRefused(f"{self.root} does not exist ({error})") from error
        except BaseException:
            # What cannot be removed now is found by `ctp gc` later, or overwritten under the same key.
            with suppress(StorageError):
                self.delete(key)
            raise
        return key

    def put_paths(self, owner: str, manifest: bytes, paths: Mapping[str, Path]) -> str:
        key = key_of_manifest(owner, manifest)
        self.check()
        with self._reaching():
            was_there = self.filesystem.exists(self._path(f"{key}/{MANIFEST}"))
        try:
            with self._reaching():
                for name, path in paths.items():
                    self.filesystem.put_file(str(path), self._path(f"{key}/{name}"))
                    self._check_size(key, name, path.stat().st_size)
                self.filesystem.pipe_file(self._path(f"{key}/{MANIFEST}"), manifest)
        except FileNotFoundError as error:
            raise StorageRefused(f"{self.root} does not exist ({error})") from error
        except BaseException:
            # Files that another process has stored whole are not ours to remove: a key names its content.
            if not was_there:
                with suppress(StorageError):
                    self.delete(key)
            raise
        return key

    def _check_size(self, key: str, name: str, expected: int) -> None:
        found = int(self.filesystem.info(self._path(f"{key}/{name}"))["size"])
        if found != expected:
            raise StorageAway(f"{self.root} has stored {found} of {expected} bytes of {name}")

    def get(self, key: str) -> Files:
        with self._reading(key):
            files = {name: self.filesystem.cat_file(self._path(f"{key}/{name}")) for name in members(key)}
        return checked(key, files)

    def pieces(self, key: str, name: str) -> Iterator[bytes]:
        """Asks for each piece on its own, so that no connection stays open while a slow reader downloads."""
        path = self._path(f"{key}/{name}")
        with self._reading(key):
            size = int(self.filesystem.info(path)["size"])
        for start in range(0, size, PIECE_BYTES):
            with self._reading(key):
                piece: bytes = self.filesystem.cat_file(path, start=start, end=min(start + PIECE_BYTES, size))
            yield piece

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        try:
            with self._reaching():
                yield
        except FileNotFoundError:
            self.check()
            raise ArtifactError(f"the files {key!r} are gone") from None

    def delete(self, owner: str) -> None:
        folder = self._path(checked_owner(owner))
        self.check()
        with self._reaching(), suppress(FileNotFoundError):
            for path in self.filesystem.find(folder):
                self.filesystem.rm_file(path)

    def entries(self) -> Iterator[Entry]:
        found: dict[str, Entry] = {}
        self.check()
        with self._reaching():
            listed = self.filesystem.find(self.root, detail=True)
        for path, detail in listed.items():
            key = entry_key(path.removeprefix(self.root).lstrip("/"))
            if key == MARK:
                continue
            before = found.get(key, Entry(key, 0, 0.0))
            modified = max(before.modified, _modified(detail))
            found[key] = Entry(key, before.num_bytes + int(detail["size"]), modified)
        yield from found.values()

    def check(self) -> str:
        marked = self.mark()
        if marked is None:
            raise unmarked(self.root)
        return marked

    def mark(self) -> str | None:
        """Without a mark, checks that the bucket exists: an empty bucket is a new store, a missing one is an error."""
        with self._reaching(), suppress(FileNotFoundError):
            return decode_mark(self.filesystem.cat_file(self._path(MARK)))
        bucket = self.root.split("/", maxsplit=1)[0]
        try:
            with self._reaching():
                self.filesystem.ls(bucket, detail=False)
        except FileNotFoundError as error:
            raise StorageRefused(f"{bucket} does not exist") from error
        return None

    def set_mark(self, store_id: str) -> None:
        with self._reaching():
            self.filesystem.pipe_file(self._path(MARK), encode_mark(store_id))

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Turns errors of the libraries into StorageError; a missing file stays a FileNotFoundError."""
        what = f"{self.root} refused or missed the call"
        try:
            yield
        except FileNotFoundError:
            raise
        except (NoCredentialsError, ParamValidationError) as error:
            raise StorageRefused(f"{what} ({error})") from error
        except (OSError, *LIBRARY_ERRORS) as error:
            if any(code in str(error) for code in FULL_CODES):
                raise StorageFull(f"{what} ({error})") from error
            if isinstance(error, OSError):
                raise storage_error(error, what) from error
            raise StorageAway(f"{what} ({error})") from error

    def _path(self, key: str) -> str:
        return f"{self.root}/{key}"


def _modified(detail: dict[str, Any]) -> float:
    """Returns the time of change, or now if the store does not tell it: unknown objects must not count as old."""
    modified = detail.get("LastModified") or detail.get("created")
    return modified.timestamp() if isinstance(modified, datetime) else time.time()
