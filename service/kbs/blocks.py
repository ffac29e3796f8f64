"""Encodes facts as blocks of bytes: a million facts become about a thousand rows of the database.

Besides the order of the upload, each KB is stored in three sorted orders. Whichever places of a fact a search fixes,
one of the orders keeps the matching facts together.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctp_core.kb.knowledge_base import FactIds

BLOCK_FACTS = 4096
SUBJECT, PREDICATE, OBJECT, POSITION = range(4)
UPLOAD = "upload"
# ordering -> the columns that it is sorted by; the position comes last and makes every row unique.
SORTED = {
    "pso": (PREDICATE, SUBJECT, OBJECT, POSITION),
    "sop": (SUBJECT, OBJECT, PREDICATE, POSITION),
    "ops": (OBJECT, PREDICATE, SUBJECT, POSITION),
}
ORDERINGS: dict[str, tuple[int, ...]] = {UPLOAD: (POSITION,), **SORTED}
COLUMNS = ("subject", "predicate", "object", "position")
Rows = NDArray[np.int32]  # [fact, 4]: subject, predicate, object, position


def ordering_for(given: set[int]) -> str:
    """Returns the ordering whose first columns are the given ones; that of the upload if none is given."""
    for name, columns in SORTED.items():
        if given == set(columns[: len(given)]) and given:
            return name
    return UPLOAD


def blocks(ids: FactIds) -> Iterator[dict[str, Any]]:
    """Yields the database rows of all facts of a KB, in every ordering."""
    rows = np.column_stack([ids, np.arange(len(ids))]).astype("<i4")
    for name, columns in ORDERINGS.items():
        ordered = rows if name == UPLOAD else rows[np.lexsort([rows[:, column] for column in reversed(columns)])]
        for number, start in enumerate(range(0, len(ordered), BLOCK_FACTS)):
            block = np.ascontiguousarray(ordered[start : start + BLOCK_FACTS])
            first = dict(zip(COLUMNS, block[0].tolist(), strict=True))
            yield {"ordering": name, "number": number, "rows": block.tobytes(), **first}


def decode(rows: bytes) -> Rows:
    return np.frombuffer(rows, dtype="<i4").reshape(-1, 4)


def matching(rows: Rows, fixed: dict[int, int], columns: tuple[int, ...], after: tuple[int, ...] | None) -> Rows:
    """Returns the rows with the fixed values that come after the key `after`; the block is sorted by `columns`."""
    keep = np.ones(len(rows), dtype=bool)
    for column, value in fixed.items():
        keep &= rows[:, column] == value
    if after is not None:
        keep &= _greater(rows[:, list(columns)], after)
    return rows[keep]


def _greater(keys: Rows, than: tuple[int, ...]) -> NDArray[np.bool_]:
    """Compares keys > than lexicographically, row by row."""
    greater = np.zeros(len(keys), dtype=bool)
    equal = np.ones(len(keys), dtype=bool)
    for column, value in enumerate(than):
        greater |= equal & (keys[:, column] > value)
        equal &= keys[:, column] == value
    return greater
