"""All edges of a KB weighed by their atoms, as tables along which paths are pushed, several reformulators at once."""

from collections import OrderedDict
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse

Ids = NDArray[np.int64]
DENSE = 2  # a table of all pairs of entities is made if it has at most so many cells for each edge,
SMALL = 1 << 16  # or so many cells: that is faster whatever it holds
KEPT_BYTES = 80_000_000  # of tables; those used last are kept, because questions about one predicate need the same
ENTRY_BYTES = 16  # of a sparse table
# [reformulator, tail, head], or a table for each reformulator.
Tables: TypeAlias = Float[np.ndarray, "reformulator tail head"] | list[sparse.csr_array]


class Barred(NamedTuple):
    """Starts, and the facts that their paths may not take, forwards or inverted."""

    rows: Int[np.ndarray, " barred"]
    facts: Int[np.ndarray, "barred 3"]


class WeighedEdges:
    """Edges sorted by tail, then by head."""

    def __init__(self, tail: Ids, head: Ids, atom: Ids, num_entities: int) -> None:
        self._head, self._atom, self._size = head, atom, num_entities
        self._starts = np.searchsorted(tail, np.arange(num_entities + 1))
        self._dense = num_entities**2 <= max(SMALL, DENSE * len(tail))
        self._cells = tail * num_entities + head if self._dense else head
        self._kept: OrderedDict[bytes, Tables] = OrderedDict()  # the least used first

    def push(
        self,
        begun: Float[np.ndarray, "start entity"],
        places: Float[np.ndarray, "reformulator place atom"],
        barred: Barred,
    ) -> Float[np.ndarray, "start reformulator entity"]:
        """Weighted number of paths to every entity, one step along all edges for each body place."""
        here = np.broadcast_to(begun, (len(places), *begun.shape))
        num_atoms = places.shape[2] // 2
        subject, predicate, object_ = barred.facts.T
        for weights in places.transpose(1, 0, 2):
            there = self._pushed(here, weights)
            if len(barred.rows):
                there[:, barred.rows, object_] -= here[:, barred.rows, subject] * weights[:, predicate]
                there[:, barred.rows, subject] -= here[:, barred.rows, object_] * weights[:, predicate + num_atoms]
            here = there
        return here.transpose(1, 0, 2)

    def _pushed(
        self, here: Float[np.ndarray, "reformulator start entity"], weights: Float[np.ndarray, "reformulator atom"]
    ) -> Float[np.ndarray, "reformulator start entity"]:
        tables = self._tables(weights)
        if isinstance(tables, np.ndarray):
            return np.asarray(np.matmul(here, tables))
        return np.stack([one @ table for one, table in zip(here, tables, strict=True)])

    def _tables(self, weights: Float[np.ndarray, "reformulator atom"]) -> Tables:
        key = weights.tobytes()
        if key not in self._kept:
            self._kept[key] = self._weighed(weights)
            while len(self._kept) > 1 and sum(map(len, self._kept.values())) * self._table_bytes > KEPT_BYTES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    @property
    def _table_bytes(self) -> int:
        return 8 * self._size**2 if self._dense else ENTRY_BYTES * len(self._atom)

    def _weighed(self, weights: Float[np.ndarray, "reformulator atom"]) -> Tables:
        """The weights of all edges: as dense tables where these take no more memory than sparse ones, or little."""
        size = self._size
        if self._dense:
            tables = [np.bincount(self._cells, row[self._atom], size**2) for row in weights]
            return np.array(tables, dtype=np.float64).reshape(len(weights), size, size)
        shape = (size, size)
        return [sparse.csr_array((row[self._atom], self._head, self._starts), shape=shape) for row in weights]
