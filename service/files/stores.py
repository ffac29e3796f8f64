"""Chooses the store of model files that the settings name."""

from pathlib import Path
from urllib.parse import urlsplit

from service.files.storage import FolderStorage, Storage
from service.settings import Settings


def make_storage(settings: Settings) -> Storage:
    """Makes a FolderStorage for `file://` URLs, and an ObjectStorage for all others."""
    url = urlsplit(settings.artifacts)
    if url.scheme == "file":
        return FolderStorage(Path(url.path))
    from service.files.object_storage import ObjectStorage  # noqa: PLC0415  slow to import

    return ObjectStorage(settings.artifacts)
