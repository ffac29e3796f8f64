"""Copies of stored files on this machine, checked as they arrive, and bounded in bytes.

All processes of a machine may share the folder. A copy is whole or absent: it is made aside and renamed. Whoever reads
a copy holds a lock on its folder, which ends with its process; only copies that nobody reads are removed.
"""

import errno
import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from ctp_core.errors import ArtifactError, DamagedKB
from ctp_core.manifest import MANIFEST
from service.facts.segment import MAX_MANIFEST_BYTES, decode_manifest
from service.files.storage import Storage, storage_error

WORK = "work"
TOUCH_SECONDS = 30.0  # when a copy was used is noted no more often


class Cache:
    """Keeps the files of segments; the least recently used copies make room for new ones."""

    def __init__(self, storage: Storage, folder: Path, max_bytes: int) -> None:
        self.storage, self.folder, self.max_bytes = storage, folder, max_bytes

    @contextmanager
    def files(self, key: str) -> Iterator[Path]:
        """Returns the folder with the files, fetched if need be; they stay while the block runs.

        Raises DamagedKB if they are gone or damaged, StorageError if they cannot be read or kept.
        """
        folder = self._path(key)
        lock = _locked(folder)
        if lock is None:
            self._fetch(key, folder)
            lock = _locked(folder)
        if lock is None:
            raise DamagedKB(f"the copy of the files {key!r} was removed while it was read: try again")
        try:
            _touch(folder)
            yield folder
        finally:
            os.close(lock)

    def drop(self, key: str) -> None:
        """Forgets a copy that proved damaged, so that it is fetched again."""
        shutil.rmtree(self._path(key), ignore_errors=True)

    def keep(self, key: str, folder: Path) -> None:
        """Moves files that were just written here among the copies."""
        self._make_room(_size(folder))
        with suppress(OSError):  # another process has it already
            folder.rename(self._path(key))

    @contextmanager
    def work_folder(self) -> Iterator[Path]:
        """Makes a folder for files that are being made; what killed processes have left is removed first."""
        self._sweep()
        folder = self.folder / WORK / uuid.uuid4().hex
        lock = locked_folder(folder)
        try:
            yield folder
        except OSError as error:
            raise storage_error(error, f"{self.folder} cannot be written (CTP_CACHE_DIR)") from error
        finally:
            os.close(lock)
            shutil.rmtree(folder, ignore_errors=True)

    def _path(self, key: str) -> Path:
        return self.folder / key.rsplit("/", 1)[1]

    def _fetch(self, key: str, target: Path) -> None:
        with self.work_folder() as folder:
            try:
                manifest = _joined(self.storage.pieces(key, MANIFEST))
                files = decode_manifest(key, manifest)
                self._make_room(sum(size for _, size in files.values()))
                for name, (digest, _) in files.items():
                    _download(self.storage.pieces(key, name), folder / name, digest)
            except DamagedKB:
                raise
            except ArtifactError as error:
                raise DamagedKB(f"{error}: restore them from a backup, or delete the KB and upload it again") from error
            with suppress(FileExistsError), _taken_by_another():
                folder.rename(target)

    def _make_room(self, num_bytes: int) -> None:
        """Removes the least recently used copies until so many bytes more are within the limit."""
        copies = sorted(self._copies(), key=lambda one: one[1])
        total = sum(size for _, _, size in copies)
        for folder, _, size in copies:
            if total + num_bytes <= self.max_bytes:
                return
            if _remove_unused(folder):
                total -= size

    def _copies(self) -> Iterator[tuple[Path, float, int]]:
        """Yields each copy, when it was used last, and its size."""
        if not self.folder.is_dir():
            return
        for folder in self.folder.iterdir():
            if folder.name == WORK or not folder.is_dir():
                continue
            with suppress(OSError):
                yield folder, folder.stat().st_mtime, _size(folder)

    def _sweep(self) -> None:
        with suppress(OSError):
            for folder in (self.folder / WORK).iterdir():
                _remove_unused(folder)


def locked_folder(folder: Path) -> int:
    """Makes a folder that nobody removes while the returned descriptor is open; raises StorageError."""
    try:
        folder.mkdir(mode=0o700, parents=True)
        lock = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise storage_error(error, f"{folder} cannot be made (CTP_CACHE_DIR)") from error
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def _joined(pieces: Iterator[bytes]) -> bytes:
    content = b""
    for piece in pieces:
        content += piece
        if len(content) > MAX_MANIFEST_BYTES:
            raise DamagedKB("a manifest is too large")
    return content


def _download(pieces: Iterator[bytes], path: Path, digest: str) -> None:
    found = sha256()
    with path.open("wb") as file:
        for piece in pieces:
            found.update(piece)
            file.write(piece)
    if found.hexdigest() != digest:
        raise DamagedKB(f"{path.name} of a KB is damaged: restore it from a backup, or upload the KB again")


@contextmanager
def _taken_by_another() -> Iterator[None]:
    """Another process may have fetched the same files meanwhile."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise


def _locked(folder: Path) -> int | None:
    """Locks a folder against removal; returns the descriptor that holds the lock, None if there is no such folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(descriptor), folder.stat()):
            return descriptor
    os.close(descriptor)
    return None


def _remove_unused(folder: Path) -> bool:
    """Removes a folder that nobody has locked; returns whether it did."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        # Renamed first, so that nobody finds half of it.
        gone = folder.parent / f"gone-{uuid.uuid4().hex}"
        with suppress(OSError):
            folder.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
        return True
    finally:
        os.close(descriptor)


def _touch(folder: Path) -> None:
    with suppress(OSError):  # a folder that cannot be written is read all the same
        if time.time() - folder.stat().st_mtime > TOUCH_SECONDS:
            os.utime(folder)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
