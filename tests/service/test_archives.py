"""Archives of models on their way to a temporary file."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

import pytest

from service.errors import storage_problem
from service.models.upload import SPOOL_BYTES, write_pieces
from service.storage import StorageFull

PIECE = b"x" * 65_536


async def pieces(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield PIECE


@pytest.mark.timeout(60)
def test_nobody_waits_for_a_disk_that_is_slow() -> None:
    """A pipe takes 64 KB and then nothing more until somebody reads: here, the loop that also receives the archive."""
    reading, writing = os.pipe()
    count = 3 * SPOOL_BYTES // len(PIECE)

    async def receive() -> int:
        async def read() -> int:
            found = 0
            while found < count * len(PIECE):
                found += len(await asyncio.to_thread(os.read, reading, SPOOL_BYTES))
            return found

        with os.fdopen(writing, "wb", buffering=0) as file:
            _, found = await asyncio.gather(write_all(file), read())
        return found

    async def write_all(file: BinaryIO) -> None:
        await write_pieces(pieces(count), file)

    assert asyncio.run(receive()) == count * len(PIECE)
    os.close(reading)


def test_a_full_disk_is_told_as_such() -> None:
    with Path("/dev/full").open("wb", buffering=0) as file, pytest.raises(StorageFull, match="make room") as caught:
        asyncio.run(write_pieces(pieces(100), file))
    assert storage_problem(caught.value)["status"] == 507
