"""Support and precision of a rule, counted over the facts; of a large KB, over those of some entities."""

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int
from scipy import sparse

from ctp_core.rules import Template

if TYPE_CHECKING:
    from ctp_core.base.edges import EdgeList

COUNTED_FROM = 1000  # entities; where a body can begin at more, so many drawn at random stand for all


class RuleCounter:
    """Sparse 0/1 tables of the atoms of a KB; an atom is a predicate or, shifted by their number, its inverse."""

    def __init__(self, edges: "EdgeList") -> None:
        self._edges = edges

    @property
    def num_entities(self) -> int:
        return self._edges.num_entities

    @property
    def num_predicates(self) -> int:
        return self._edges.num_predicates

    def degrees(self, atom: int) -> Int[np.ndarray, " entity"]:
        """How many edges of this atom every entity has."""
        return np.diff(self.tables[atom].indptr)

    @cached_property
    def tables(self) -> list[sparse.csr_array]:
        edges = self._edges
        order = np.argsort(edges.atom, kind="stable")
        bounds = np.searchsorted(edges.atom[order], np.arange(2 * edges.num_predicates + 1))
        shape = (edges.num_entities, edges.num_entities)
        tables = []
        for start, end in pairwise(bounds.tolist()):
            rows, columns = edges.tail[order[start:end]], edges.head[order[start:end]]
            tables.append(sparse.csr_array((np.ones(len(rows), dtype=np.int32), (rows, columns)), shape=shape))
        return tables

    def count(self, head: int, template: Template, body: tuple[int, ...]) -> tuple[int, int]:
        """(support, pairs): in how many pairs of entities body and head hold, and in how many the body does.

        Where the body begins at more than `COUNTED_FROM` entities both are estimates: a long chain joins a large KB
        in more pairs than anybody waits for.
        """
        if template.unary:
            return self._count_unary(head, body[0], about_subject=template.about_subject)
        starts = np.flatnonzero(self.degrees(body[0]))
        drawn = np.random.default_rng(0).permutation(len(starts))[:COUNTED_FROM]
        chosen = starts[np.sort(drawn)]
        reached = self.tables[body[0]][chosen]
        for atom in body[1:]:
            reached = reached @ self.tables[atom]
            reached.data[:] = 1  # pairs are counted, not paths
        scale = len(starts) / max(1, len(chosen))
        return round(scale * int(reached.multiply(self.tables[head][chosen]).sum())), round(scale * reached.nnz)

    def _count_unary(self, head: int, atom: int, *, about_subject: bool) -> tuple[int, int]:
        """p(X,Y) :- p(X,Z) holds of a pair only with a Z other than Y: the fact itself is no grounding."""
        num_entities, num_predicates = self._edges.num_entities, self._edges.num_predicates
        inverse = (head + num_predicates) % (2 * num_predicates)
        heads = self.tables[head if about_subject else inverse]  # rows are the entity that the body is about
        bodies = np.diff(self.tables[atom].indptr)
        if atom == (head if about_subject else inverse):
            support = np.diff(heads.indptr)[bodies > 1].sum()
            pairs = num_entities * (bodies > 1).sum() + (num_entities - 1) * (bodies == 1).sum()
            return int(support), int(pairs)
        return int(np.diff(heads.indptr)[bodies > 0].sum()), int(num_entities * (bodies > 0).sum())
