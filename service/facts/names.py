"""A dictionary file: the names of one role, in the order of their numbers, searchable by name and by prefix.

It is mapped into memory, so that a look-up reads a page or two of it, however many names there are. Its parts are a
header, where each name ends, the numbers sorted by name, how many facts have each name, and the names as UTF-8.
"""

import mmap
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctp_core.errors import DamagedKB

MAGIC = b"ctpnames"
HEADER = struct.Struct("<8sQQ")  # magic, number of names, bytes of all names
CHUNK_NAMES = 50_000


def write_names(path: Path, names: Sequence[str], order: NDArray[np.int32], num_facts: NDArray[np.int64]) -> None:
    """Writes the file; `order` are the numbers sorted by name."""
    with path.open("wb") as file:
        file.write(HEADER.pack(MAGIC, len(names), 0))
        end = 0
        for chunk in _chunks(names):
            ends = np.cumsum([len(name.encode()) for name in chunk], dtype="<i8") + end
            file.write(ends.tobytes())
            end = int(ends[-1])
        file.write(order.astype("<i4").tobytes())
        file.write(num_facts.astype("<i4").tobytes())
        for chunk in _chunks(names):
            file.write("".join(chunk).encode())
        file.seek(0)
        file.write(HEADER.pack(MAGIC, len(names), end))


def _chunks(names: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(names)
    while chunk := list(islice(iterator, CHUNK_NAMES)):
        yield chunk


class Names:
    """The names in a dictionary file, by number and by name."""

    def __init__(self, path: Path) -> None:
        """Raises DamagedKB where the file is not whole."""
        content = _mapped(path)
        magic, count, num_bytes = HEADER.unpack_from(content) if len(content) >= HEADER.size else (b"", 0, 0)
        start = HEADER.size + 16 * count
        if magic != MAGIC or len(content) != start + num_bytes:
            raise DamagedKB(f"{path.name} is damaged")
        self._ends = np.frombuffer(content, "<i8", count, HEADER.size)
        self._order = np.frombuffer(content, "<i4", count, HEADER.size + 8 * count)
        self.num_facts: NDArray[np.int32] = np.frombuffer(content, "<i4", count, HEADER.size + 12 * count)
        self._start, self._content = start, content

    def __len__(self) -> int:
        return len(self._ends)

    def _bytes(self, number: int) -> bytes:
        first = int(self._ends[number - 1]) if number else 0
        return bytes(self._content[self._start + first : self._start + int(self._ends[number])])

    def name(self, number: int) -> str:
        return self._bytes(number).decode()

    def all(self) -> Iterator[str]:
        """Yields all names in the order of their numbers."""
        first = 0
        for start in range(0, len(self), CHUNK_NAMES):
            ends = self._ends[start : start + CHUNK_NAMES].tolist()
            block = bytes(self._content[self._start + first : self._start + ends[-1]])
            begin = first
            for end in ends:
                yield block[begin - first : end - first].decode()
                begin = end
            first = begin

    def number(self, name: str) -> int | None:
        place, wanted = self._place(name.encode(errors="replace")), name.encode(errors="replace")
        if place == len(self):
            return None
        found = int(self._order[place])
        return found if self._bytes(found) == wanted else None

    def with_prefix(self, prefix: str, after: str = "") -> Iterator[int]:
        """Yields the numbers of the names that begin with `prefix` and come after `after`, sorted by name."""
        start = prefix.encode(errors="replace")
        place = self._place(start)
        if after:
            place = max(place, self._place(after.encode(errors="replace"), beyond=True))
        for number in self._order[place:]:
            if not self._bytes(int(number)).startswith(start):
                return
            yield int(number)

    def _place(self, name: bytes, beyond: bool = False) -> int:
        """Returns how many names sort before this one; with `beyond`, how many do not sort after it."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            found = self._bytes(int(self._order[middle]))
            if found < name or (beyond and found == name):
                low = middle + 1
            else:
                high = middle
        return low

    def contains(self, pattern: Any) -> bool:
        """Tells whether a compiled pattern of bytes occurs anywhere in the names."""
        return pattern.search(self._content, self._start) is not None


def _mapped(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
