"""Chains of body atoms on edge lists: how many groundings lead where, and which they are."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray
from scipy import sparse

from ctp_core.base.edges import EdgeList, Paths, slices
from ctp_core.evidence.proofs import provable
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.rules import Template

AtomIds = tuple[int, ...]
Ids = NDArray[np.int64]


def turned(body: AtomIds, num_predicates: int) -> AtomIds:
    """The body of the same path read from its end to its start."""
    return tuple((atom + num_predicates) % (2 * num_predicates) for atom in reversed(body))


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


class PairWalks:
    """Finds the groundings of rules for given facts, none by the fact itself; shared beginnings are walked once.

    All facts of a hub begin or end at one entity, from which one walk serves them all.
    """

    def __init__(self, edges: EdgeList, facts: FactIds) -> None:
        self._edges, self._facts = edges, facts
        subjects, objects = np.unique(facts[:, 0]), np.unique(facts[:, 2])
        self._flipped = len(subjects) < len(objects)
        each, shared = (2, 0) if self._flipped else (0, 2)
        ends, self._end = np.unique(facts[:, shared], return_inverse=True)
        self._from_each, self._from_ends = _WalksFrom(edges, facts[:, each]), _WalksFrom(edges, ends)

    def paths(self, template: Template, body: AtomIds) -> Paths:
        """Paths between the entities of the facts, or the edges of one of them; facts in rising order."""
        if template.unary:
            pair, stations = _WalksFrom(self._edges, self._facts[:, 0 if template.about_subject else 2]).along(body)
        else:
            pair, stations = self._joined(body)
        paths = Paths(pair, np.tile(np.array(body), (len(pair), 1)), stations)
        return provable(self._edges, self._facts, paths)

    def num_walks(self, body: AtomIds) -> float:
        """At most so many walks find the groundings of a body: those along all of it, from either end of the facts."""
        ways = ((self._facts[:, 0], body), (self._facts[:, 2], turned(body, self._edges.num_predicates)))
        return max(self._num_walks_from(starts, atoms) for starts, atoms in ways)

    def _num_walks_from(self, starts: Ids, body: AtomIds) -> float:
        here = np.bincount(starts, minlength=self._edges.num_entities).astype(np.float64)
        most = 0.0
        for atom in body:
            here = np.asarray(here @ self._edges.tables[atom])
            most = max(most, float(here.sum()))
        return most

    def _joined(self, body: AtomIds) -> tuple[Ids, Ids]:
        """Walks half of the body from either end and joins the halves where they meet."""
        num_predicates, num_entities = self._edges.num_predicates, self._edges.num_entities
        body = turned(body, num_predicates) if self._flipped else body
        half = (len(body) + 1) // 2
        pair, left = self._from_each.along(body[:half])
        end, right = self._from_ends.along(turned(body[half:], num_predicates))
        keys, met = self._end[pair] * num_entities + left[:, -1], end * num_entities + right[:, -1]
        order = np.argsort(met, kind="stable")
        which, entry = slices(np.searchsorted(met[order], keys), np.searchsorted(met[order], keys, side="right"))
        stations = np.concatenate([left[which], right[order[entry], -2::-1]], axis=1)
        return pair[which], stations[:, ::-1] if self._flipped else stations


class _WalksFrom:
    def __init__(self, edges: EdgeList, starts: Ids) -> None:
        self._tables = edges.tables
        self._found: dict[AtomIds, tuple[Ids, Ids]] = {(): (np.arange(len(starts)), starts[:, None])}

    def along(self, body: AtomIds) -> tuple[Ids, Ids]:
        """(which start, the entities passed) of every walk."""
        if body not in self._found:
            origin, stations = self.along(body[:-1])
            table = self._tables[body[-1]]
            which, entry = slices(table.indptr[stations[:, -1]], table.indptr[stations[:, -1] + 1])
            self._found[body] = origin[which], np.column_stack([stations[which], table.indices[entry]])
        return self._found[body]
