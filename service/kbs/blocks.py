"""Facts as blocks of bytes: a million rows are a thousand rows of the database, written and read in order.

Besides the order of the upload, each KB is kept in three sorted orders. Whatever places of a fact are given, in one
of them the facts that fit stand together.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctp_core.kb.knowledge_base import FactIds

BLOCK_FACTS = 4096
SUBJECT, PREDICATE, OBJECT, POSITION = range(4)
UPLOAD = "upload"
# ordering -> the columns it is sorted by; the position comes last, so that no two rows are equal.
SORTED = {
    "pso": (PREDICATE, SUBJECT, OBJECT, POSITION),
    "sop": (SUBJECT, OBJECT, PREDICATE, POSITION),
    "ops": (OBJECT, PREDICATE, SUBJECT, POSITION),
}
ORDERINGS: dict[str, tuple[int, ...]] = {UPLOAD: (POSITION,), **SORTED}
COLUMNS = ("subject", "predicate", "object", "position")
Rows = NDArray[np.int32]  # [fact, 4]: subject, predicate, object, position


def ordering_for(given: set[int]) -> str:
    """The ordering that begins with the given columns."""
    for name, columns in SORTED.items():
        if given == set(columns[: len(given)]) and given:
            return name
    return UPLOAD


def blocks(ids: FactIds) -> Iterator[dict[str, Any]]:
    """The database rows of all facts of a KB, in every ordering."""
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
    """Rows with the fixed values that come after a key, in a block that is sorted by `columns`."""
    keep = np.ones(len(rows), dtype=bool)
    for column, value in fixed.items():
        keep &= rows[:, column] == value
    if after is not None:
        keep &= _greater(rows[:, list(columns)], after)
    return rows[keep]


def _greater(keys: Rows, than: tuple[int, ...]) -> NDArray[np.bool_]:
    """keys > than, column by column from the left."""
    greater = np.zeros(len(keys), dtype=bool)
    equal = np.ones(len(keys), dtype=bool)
    for column, value in enumerate(than):
        greater |= equal & (keys[:, column] > value)
        equal &= keys[:, column] == value
    return greater
