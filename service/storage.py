"""Model files and checkpoints, under keys that name their owner and their content."""

import os
import shutil
import uuid
from hashlib import sha256
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from ctp_core.artifact import MANIFEST
from ctp_core.errors import ArtifactError
from service.settings import Settings

Files = dict[str, bytes]


class Storage(Protocol):
    """Keys are `owner/sha256-of-the-manifest`; what is under a key never changes."""

    def put(self, owner: str, files: Files) -> str: ...

    def get(self, key: str) -> Files: ...

    def delete(self, owner: str) -> None: ...


class FolderStorage:
    """A folder: written aside, synced and renamed, so that a kill leaves all of an artifact or nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, owner: str, files: Files) -> str:
        key = f"{owner}/{sha256(files[MANIFEST]).hexdigest()}"
        target = self.root / key
        if target.exists():
            return key
        parent = target.parent
        parent.mkdir(parents=True, exist_ok=True)
        temporary = parent / f".{uuid.uuid4().hex}.part"
        try:
            temporary.mkdir()
            for name, content in files.items():
                _write_synced(temporary / name, content)
            _sync_folder(temporary)
            temporary.rename(target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        _sync_folder(parent)
        return key

    def get(self, key: str) -> Files:
        """Raises ArtifactError where nothing is there, or where the manifest is not the one the key names."""
        folder = self.root / key
        if not folder.is_dir():
            raise ArtifactError(f"the files {key!r} are gone")
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        if sha256(files.get(MANIFEST, b"")).hexdigest() != key.rsplit("/", 1)[1]:
            raise ArtifactError(f"the manifest of {key!r} is damaged")
        return files

    def delete(self, owner: str) -> None:
        shutil.rmtree(self.root / owner, ignore_errors=True)


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_storage(settings: Settings) -> Storage:
    return FolderStorage(Path(urlsplit(settings.artifacts).path))
