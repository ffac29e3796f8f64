"""The fields of a form: only those that a call knows, and each of them once."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.datastructures import FormData, UploadFile

from service.errors import Invalid
from service.files.storage import FULL, storage_error

MAX_TEXTS = 16
MAX_SHOWN = 80


@dataclass(frozen=True)
class Fields:
    """By name; a text that is empty is not there."""

    texts: dict[str, str]
    files: dict[str, UploadFile]


def known_fields(form: FormData, texts: Sequence[str], files: Sequence[str]) -> Fields:
    """Raises Invalid at a field of another name, and at one that comes twice: neither must be lost in silence."""
    found = Fields(
        {name: value for name, value in form.items() if isinstance(value, str) and value},
        {name: value for name, value in form.items() if isinstance(value, UploadFile)},
    )
    unknown = sorted((set(found.files) - set(files)) | (set(found.texts) - set(texts)))
    if unknown:
        known = f"{', '.join(texts)} and the files {', '.join(files)}"
        raise Invalid("unknown_field", f"unknown form field {unknown[0][:MAX_SHOWN]!r}; known are {known}")
    repeated = [name for name in form if len(form.getlist(name)) > 1]
    if repeated:
        raise Invalid("repeated_field", f"the form field {repeated[0][:MAX_SHOWN]!r} comes twice: send it once")
    return found


@contextmanager
def room_for(what: str) -> Iterator[None]:
    """Raises StorageFull where the temporary folder is full while the block writes to it."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise storage_error(error, f"{what} does not fit into {tempfile.gettempdir()}") from error
