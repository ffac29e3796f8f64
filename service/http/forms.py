"""Checks the fields of a form: unknown and repeated fields are refused."""

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
    """The fields by name; empty texts are left out."""

    texts: dict[str, str]
    files: dict[str, UploadFile]


def known_fields(form: FormData, texts: Sequence[str], files: Sequence[str]) -> Fields:
    """Collects the fields; raises Invalid if one is unknown or repeated, rather than ignoring it silently."""
    found = Fields(
        {name: value for name, value in form.items() if isinstance(value, str) and value},
        {name: value for name, value in form.items() if isinstance(value, UploadFile)},
    )
    unknown = sorted((set(found.files) - set(files)) | (set(found.texts) - set(texts)))
    if unknown:
        known = f"{', '.join(texts)} and the files {', '.join(files)}"
        raise Invalid("unknown_field", f"unknown form field {unknown[0][:MAX_SHOWN]!r}: the known fields are {known}")
    repeated = [name for name in form if len(form.getlist(name)) > 1]
    if repeated:
        raise Invalid("repeated_field", f"the form field {repeated[0][:MAX_SHOWN]!r} is repeated: send it once")
    return found


@contextmanager
def room_for(what: str) -> Iterator[None]:
    """Raises StorageFull if the temporary folder fills up while the block writes to it."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise storage_error(error, f"{what} does not fit into {tempfile.gettempdir()}") from error
