"""Support and precision of a rule, counted over the facts."""

from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy import sparse

from ctp_core.provers.edge_list import EdgeList


class RuleCounter:
    """Sparse 0/1 tables of the atoms of a KB; an atom is a predicate or, shifted by their number, its inverse."""

    def __init__(self, edges: EdgeList) -> None:
        self._edges = edges

    @cached_property
    def _tables(self) -> list[sparse.csr_array]:
        edges = self._edges
        order = np.argsort(edges.atom, kind="stable")
        bounds = np.searchsorted(edges.atom[order], np.arange(2 * edges.num_predicates + 1))
        shape = (edges.num_entities, edges.num_entities)
        tables = []
        for start, end in pairwise(bounds.tolist()):
            rows, columns = edges.tail[order[start:end]], edges.head[order[start:end]]
            tables.append(sparse.csr_array((np.ones(len(rows), dtype=np.int32), (rows, columns)), shape=shape))
        return tables

    def count(self, head: int, body: tuple[int, ...]) -> tuple[int, int]:
        """(support, pairs): in how many pairs of entities body and head hold, and in how many the body does."""
        reached = self._tables[body[0]]
        for atom in body[1:]:
            reached = reached @ self._tables[atom]
            reached.data[:] = 1  # pairs are counted, not paths
        return int(reached.multiply(self._tables[head]).sum()), int(reached.nnz)
