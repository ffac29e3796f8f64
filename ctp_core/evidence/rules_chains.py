"""Chains of body atoms on edge lists, body by body: how many groundings lead from many entities to all."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray
from scipy import sparse

from ctp_core.base.edges import EdgeList
from ctp_core.evidence.body_tree import AtomIds, Ids, turned
from ctp_core.kb.knowledge_base import FactIds


@dataclass(frozen=True)
class Hidden:
    """Edges to ignore, one for each question: `atom` from its start to its entry of `ends`, and the inverse edge."""

    atom: int
    ends: Int[np.ndarray, " question"]


class ChainRows:
    """Groundings of chains from given entities to all entities, by one sparse product for each atom.

    Ask for bodies in sorted order: then shared beginnings are multiplied once, and little is kept in memory.
    """

    def __init__(self, edges: EdgeList, starts: Int[np.ndarray, " question"], hidden: Hidden | None = None) -> None:
        self._edges, self._starts, self._hidden = edges, starts, hidden
        self._questions = np.arange(len(starts))
        once = np.ones(len(starts), dtype=np.int32)
        self._reached: dict[AtomIds, sparse.csr_array] = {(): self._marked(starts, once)}
        begun = np.bincount(starts, minlength=edges.num_entities).astype(np.float64)
        self._widths: dict[AtomIds, NDArray[np.float64]] = {(): begun}

    def widest(self, body: AtomIds) -> float:
        """Estimates a rule's cost: the number of paths per question at the step with the most, without finding them."""
        self._widths = {start: found for start, found in self._widths.items() if body[: len(start)] == start}
        most = 0.0
        for place, atom in enumerate(turned(body, self._edges.num_predicates)[::-1]):
            if body[: place + 1] not in self._widths:
                self._widths[body[: place + 1]] = self._edges.tables[atom] @ self._widths[body[:place]]
            most = max(most, float(self._widths[body[: place + 1]].sum()))
        return most / max(1, len(self._starts))

    def counts(self, body: AtomIds) -> sparse.csr_array:
        """[question, entity]: the number of paths."""
        self._reached = {start: found for start, found in self._reached.items() if body[: len(start)] == start}
        for place, atom in enumerate(body):
            if body[: place + 1] not in self._reached:
                self._reached[body[: place + 1]] = self._step(self._reached[body[:place]], atom)
        return self._reached[body]

    def _step(self, reached: sparse.csr_array, atom: int) -> sparse.csr_array:
        onward = reached @ self._edges.tables[atom]
        if self._hidden is None or (atom - self._hidden.atom) % self._edges.num_predicates:
            return onward
        ends = (self._starts, self._hidden.ends)
        tails, heads = ends if atom == self._hidden.atom else ends[::-1]
        through = np.asarray(reached[self._questions, tails]).ravel()
        onward = (onward - self._marked(heads, through)).tocsr()
        onward.eliminate_zeros()
        return onward

    def _marked(self, entities: Ids, values: NDArray[np.int32]) -> sparse.csr_array:
        """A table with one cell set in each row."""
        shape = (len(self._questions), self._edges.num_entities)
        return sparse.csr_array((values, (self._questions, entities)), shape=shape)


def num_walks(edges: EdgeList, facts: FactIds, body: AtomIds) -> float:
    """At most so many walks find the groundings of a body: those along all of it, from either end of the facts."""
    ways = ((facts[:, 0], body), (facts[:, 2], turned(body, edges.num_predicates)))
    return max(_num_walks_from(edges, starts, atoms) for starts, atoms in ways)


def _num_walks_from(edges: EdgeList, starts: Ids, body: AtomIds) -> float:
    here = np.bincount(starts, minlength=edges.num_entities).astype(np.float64)
    most = 0.0
    for atom in body:
        here = np.asarray(here @ edges.tables[atom])
        most = max(most, float(here.sum()))
    return most
