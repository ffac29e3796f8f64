"""Stores the files of models, checkpoints and KBs under keys that name their owner and their content.

A key is `owner/sha256-of-the-manifest`, and the manifest holds the checksums of the other files, so incomplete or
damaged files are always noticed. Every process that may write has an owner of its own, so that no process removes what
another has written. A mark file says which database the store belongs to (`service.files.store_owner`). A store without
its mark is treated as absent (for example not mounted), not as empty.
"""

import errno
import filecmp
import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, Protocol

from ctp_core.errors import ArtifactError
from ctp_core.manifest import MANIFEST, TENSORS, decode_manifest, decode_manifest_of, encode_manifest
from service.settings import MIB

Files = dict[str, bytes]
ROWS = "rows"  # what the files of a prediction have in the place of tensors
MEMBERS = (MANIFEST, TENSORS)
PIECE_BYTES = MIB
PART = ".part"
MARK = "ctp-store.json"
# `service.training.outcomes`, `service.models.transfer` and `service.facts.files` choose the owners.
OWNER = re.compile(r"(jobs|kbs|models|predictions)(/\w+)+")
KEY = re.compile(rf"{OWNER.pattern}/([0-9a-f]{{64}}|\.[0-9a-f]{{32}}{re.escape(PART)})")
FULL = (errno.ENOSPC, errno.EDQUOT)
TAKEN = (errno.EEXIST, errno.ENOTEMPTY)  # a folder cannot be renamed to one that another process has made meanwhile
REFUSED = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.EINVAL,
    errno.ENOSYS,
    errno.ENAMETOOLONG,
)


class StorageError(Exception):
    """Files could not be written, read or removed, although nothing is wrong with the files themselves.

    StorageError
    ├── StorageFull     no room; no partial files were left behind
    ├── StorageRefused  wrong settings or permissions: somebody has to change them
    └── StorageAway     cannot be reached now: the same call may succeed later
    Files that are gone or damaged are an ArtifactError.
    """

    code: ClassVar[str] = "storage_failed"
    remedy: ClassVar[str] = ""

    def __str__(self) -> str:
        return f"{super().__str__()}: {self.remedy}"


class StorageFull(StorageError):
    code, remedy = "storage_full", "make room and try again"


class StorageRefused(StorageError):
    code, remedy = "storage_refused", "check CTP_ARTIFACTS_URL and its permissions"


class StorageAway(StorageError):
    code, remedy = "storage_away", "try again in a moment"


def storage_error(error: OSError, what: str) -> StorageError:
    """Returns the StorageError that an error of the operating system, or of s3fs in the same form, stands for."""
    kind = StorageFull if error.errno in FULL else StorageRefused if _is_refusal(error) else StorageAway
    return kind(f"{what} ({error.strerror or error})")


def _is_refusal(error: OSError) -> bool:
    return isinstance(error, PermissionError) or error.errno in REFUSED


@dataclass(frozen=True)
class Entry:
    """The files under a key, the remains of an interrupted write, or a file that the service did not write."""

    key: str
    num_bytes: int
    modified: float  # seconds since 1970

    @property
    def is_foreign(self) -> bool:
        return not KEY.fullmatch(self.key)


class Storage(Protocol):
    """Stores files by key; the files under a key never change."""

    def put(self, owner: str, files: Files) -> str:
        """Stores all files durably and returns their key; raises StorageError if it cannot."""
        ...

    def put_paths(self, owner: str, manifest: bytes, paths: Mapping[str, Path]) -> str:
        """Stores a manifest and files of this machine, a piece at a time; else as `put`."""
        ...

    def get(self, key: str) -> Files:
        """Reads the files; raises ArtifactError if they are gone or damaged, StorageError if that cannot be told."""
        ...

    def pieces(self, key: str, name: str) -> Iterator[bytes]:
        """Reads one of the files piece by piece, without a check of its content; raises as `get`."""
        ...

    def delete(self, owner: str) -> None:
        """Removes everything under an owner or a key, if there is anything."""
        ...

    def entries(self) -> Iterator[Entry]:
        """Lists everything that is stored, complete or not."""
        ...

    def check(self) -> str:
        """Returns the mark; raises StorageError if there is none, or if files cannot be written or read now."""
        ...

    def mark(self) -> str | None:
        """Returns the id of the store from its mark; None if there is no mark."""
        ...

    def set_mark(self, store_id: str) -> None: ...


def members(key: str) -> tuple[str, str]:
    """Returns the names of the files under a key: the manifest, and what its checksum is of."""
    return (MANIFEST, ROWS) if key.startswith("predictions/") else MEMBERS


def rows_files(rows: bytes) -> Files:
    """Returns the files of a part of a prediction."""
    return {MANIFEST: encode_manifest({"kind": ROWS}, rows), ROWS: rows}


def key_of_manifest(owner: str, manifest: bytes) -> str:
    return f"{checked_owner(owner)}/{sha256(manifest).hexdigest()}"


def key_of(owner: str, files: Files) -> str:
    return f"{owner}/{sha256(files[MANIFEST]).hexdigest()}"


def checked(key: str, files: Files) -> Files:
    """Returns the files; raises ArtifactError if they are not those that the key names."""
    manifest, content = members(key)
    _check_manifest(key, files.get(manifest, b""))
    decode_manifest({MANIFEST: files[manifest], TENSORS: files[content]})
    return files


def checked_sizes(storage: Storage, key: str) -> dict[str, int]:
    """Returns the size of each file without holding the tensors in memory; raises as `Storage.get`."""
    manifest = b"".join(storage.pieces(key, MANIFEST))
    _check_manifest(key, manifest)
    digest, size = sha256(), 0
    for piece in storage.pieces(key, TENSORS):
        digest.update(piece)
        size += len(piece)
    decode_manifest_of(manifest, digest.hexdigest())
    return {MANIFEST: len(manifest), TENSORS: size}


def _check_manifest(key: str, manifest: bytes) -> None:
    if sha256(manifest).hexdigest() != key.rsplit("/", 1)[1]:
        raise ArtifactError(f"the files {key!r} are damaged or gone")


def checked_owner(owner: str) -> str:
    """Returns the owner or key; raises ValueError for anything else, since removing it could remove everything."""
    if not (OWNER.fullmatch(owner) or KEY.fullmatch(owner)):
        raise ValueError(f"{owner!r} is not an owner of files")
    return owner


def entry_key(path: str) -> str:
    """Returns the key whose folder holds the file, or the path itself if there is none."""
    folder = path.rpartition("/")[0]
    return folder if KEY.fullmatch(folder) else path


def encode_mark(store_id: str) -> bytes:
    return json.dumps({"id": store_id}).encode()


def decode_mark(content: bytes) -> str:
    """Returns the id in the mark; an empty string, which is nobody's id, if the mark cannot be read."""
    try:
        return str(json.loads(content)["id"])
    except (ValueError, KeyError, TypeError):
        return ""


def unmarked(root: object) -> StorageAway:
    return StorageAway(f"{root} has no file {MARK}, so it is not mounted or is not the folder of the model files")


class FolderStorage:
    """Stores files in a folder; writes aside, syncs and renames, so that a kill leaves a whole artifact or nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, owner: str, files: Files) -> str:
        key = key_of(owner, files)
        target = self.root / key
        self.check()
        try:
            if target.exists():
                if self._is_whole(key):
                    return key
                shutil.rmtree(target)
            self._write(target, files)
        except OSError as error:
            raise storage_error(error, f"{_size(files)} bytes cannot be written to {self.root}") from error
        return key

    def put_paths(self, owner: str, manifest: bytes, paths: Mapping[str, Path]) -> str:
        key = key_of_manifest(owner, manifest)
        self.check()
        size = sum(path.stat().st_size for path in paths.values())
        try:
            if (self.root / key).exists():
                if _same_files(self.root / key, manifest, paths):
                    return key
                shutil.rmtree(self.root / key)
            self._write(self.root / key, {**paths, MANIFEST: manifest})
        except OSError as error:
            raise storage_error(error, f"{size} bytes cannot be written to {self.root}") from error
        return key

    def _write(self, target: Path, files: Mapping[str, bytes | Path]) -> None:
        temporary, renamed = target.parent / f".{uuid.uuid4().hex}{PART}", False
        try:
            temporary.mkdir(parents=True)
            for name, content in files.items():
                _write_synced(temporary / name, content)
            _sync_folder(temporary)
            temporary.rename(target)
            renamed = True
            self._sync_ancestors(target)
        except BaseException as error:
            shutil.rmtree(temporary, ignore_errors=True)
            # A rename that could not be made durable is undone. What another process has written is not ours to undo:
            # a key names its content, so that it is the same.
            if renamed:
                shutil.rmtree(target, ignore_errors=True)
            elif isinstance(error, OSError) and error.errno in TAKEN:
                return
            raise

    def get(self, key: str) -> Files:
        with self._reading(key):
            files = {name: (self.root / key / name).read_bytes() for name in members(key)}
        return checked(key, files)

    def pieces(self, key: str, name: str) -> Iterator[bytes]:
        with self._reading(key), (self.root / key / name).open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            self.check()
            raise ArtifactError(f"the files {key!r} are gone") from None
        except IsADirectoryError:
            raise ArtifactError(f"the files {key!r} are damaged: one of them is a folder") from None
        except OSError as error:
            raise storage_error(error, f"the files {key!r} cannot be read") from error

    def delete(self, owner: str) -> None:
        folder = self.root / checked_owner(owner)
        self.check()
        # Another process may be removing the same files: what counts is that they are gone in the end.
        shutil.rmtree(folder, ignore_errors=True)
        try:
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)
        except OSError as error:
            raise storage_error(error, f"the files of {owner!r} cannot be removed") from error
        # Removes folders that became empty; a writer that needs one makes it again.
        for parent in folder.parents:
            if parent == self.root:
                return
            with suppress(OSError):
                parent.rmdir()

    def entries(self) -> Iterator[Entry]:
        self.check()
        for folder, _, names in os.walk(self.root):
            key = str(Path(folder).relative_to(self.root))
            if KEY.fullmatch(key):
                yield from self._entry(key, [Path(folder), *(Path(folder, name) for name in names)])
                continue
            for name in names:
                path = Path(folder, name)
                if path != self.root / MARK:
                    yield from self._entry(str(path.relative_to(self.root)), [path])

    @staticmethod
    def _entry(key: str, paths: list[Path]) -> Iterator[Entry]:
        """Yields one entry, or nothing if the files are removed meanwhile."""
        with suppress(FileNotFoundError):
            found = [path.lstat() for path in paths]
            size = sum(state.st_size for state in found if not stat.S_ISDIR(state.st_mode))
            yield Entry(key, size, max(state.st_mtime for state in found))

    def check(self) -> str:
        marked = self.mark()
        if marked is None:
            raise unmarked(self.root)
        if not os.access(self.root, os.R_OK | os.W_OK | os.X_OK):
            raise StorageRefused(f"{self.root} cannot be used (Permission denied)")
        return marked

    def mark(self) -> str | None:
        try:
            return decode_mark((self.root / MARK).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, f"{self.root / MARK} cannot be read") from error

    def set_mark(self, store_id: str) -> None:
        temporary = self.root / f".{MARK}{PART}"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            _write_synced(temporary, encode_mark(store_id))
            temporary.replace(self.root / MARK)
            _sync_folder(self.root)
        except OSError as error:
            raise storage_error(error, f"{self.root} cannot be used") from error

    def _is_whole(self, key: str) -> bool:
        try:
            self.get(key)
        except ArtifactError:
            return False
        return True

    def _sync_ancestors(self, target: Path) -> None:
        """Syncs the folders above: they hold the name of the artifact and of folders that were made for it."""
        for parent in target.parents:
            _sync_folder(parent)
            if parent == self.root:
                return


def _same_files(folder: Path, manifest: bytes, paths: Mapping[str, Path]) -> bool:
    try:
        same = (folder / MANIFEST).read_bytes() == manifest
        return same and all(filecmp.cmp(path, folder / name, shallow=False) for name, path in paths.items())
    except FileNotFoundError:
        return False


def _size(files: Files) -> int:
    return sum(map(len, files.values()))


def _write_synced(path: Path, content: bytes | Path) -> None:
    """Writes the content, or that of another file."""
    with path.open("wb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            with content.open("rb") as source:
                shutil.copyfileobj(source, file, PIECE_BYTES)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
