"""Bodies that are too large for memory and wait in the temporary folder."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from service.files.storage import FULL, storage_error


@contextmanager
def room_for(what: str) -> Iterator[None]:
    """Raises StorageFull where the temporary folder is full while the block writes to it."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise storage_error(error, f"{what} does not fit into {tempfile.gettempdir()}") from error
