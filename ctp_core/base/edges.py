"""A KB as a list of edges: every fact once forwards and once as the inverse of its predicate."""

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from ctp_core.kb.knowledge_base import FactIds, sorted_facts
from ctp_core.rules import Template

Ids = NDArray[np.int64]


def slices(starts: Ids, ends: Ids) -> tuple[Ids, Ids]:
    """The slices starts[i]:ends[i] end to end, with the i each element came from."""
    lengths = ends - starts
    which = np.repeat(np.arange(len(starts)), lengths)
    offsets = np.cumsum(lengths) - lengths
    return which, np.arange(len(which)) + (starts - offsets)[which]


EVERYTHING = slice(None)
NO_EDGES = slice(0)


class Paths(NamedTuple):
    """Groundings of one template for a list of pairs: path i belongs to pair `pair[i]` and passes its `stations`."""

    pair: Int[np.ndarray, " path"]
    atoms: Int[np.ndarray, "path place"]
    stations: Int[np.ndarray, "path place+1"]


class EdgeList:
    """Edges sorted by (tail, head, atom), so that all edges of an entity and of a pair are slices.

    `facts` are distinct, as those of a FactsKB and of a FactsView are: one that is given twice would count twice.
    """

    def __init__(self, facts: FactIds, num_entities: int, num_predicates: int) -> None:
        self.num_entities, self.num_predicates = num_entities, num_predicates
        self.facts = sorted_facts(facts, num_entities, num_predicates)
        subject, predicate, object_ = self.facts.T
        tail, head = np.concatenate([subject, object_]), np.concatenate([object_, subject])
        atom = np.concatenate([predicate, predicate + num_predicates])
        order = np.lexsort((atom, head, tail))
        self.tail, self.head, self.atom = tail[order], head[order], atom[order]
        self._pair_keys = self.tail * num_entities + self.head
        self._starts = np.searchsorted(self.tail, np.arange(num_entities + 1))

    @cached_property
    def tables(self) -> list[sparse.csr_array]:
        """The same edges as one sparse 0/1 table [tail, head] for each atom: a predicate or, shifted by their number,
        its inverse."""
        order = np.argsort(self.atom, kind="stable")
        bounds = np.searchsorted(self.atom[order], np.arange(2 * self.num_predicates + 1))
        shape = (self.num_entities, self.num_entities)
        tables = []
        for start, end in pairwise(bounds.tolist()):
            rows, columns = self.tail[order[start:end]], self.head[order[start:end]]
            tables.append(sparse.csr_array((np.ones(len(rows), dtype=np.int32), (rows, columns)), shape=shape))
        return tables

    def degrees_by(self, atom: int) -> Int[np.ndarray, " entity"]:
        """How many edges of this atom every entity has."""
        return np.diff(self.tables[atom].indptr)

    def of_entities(self, entities: Ids) -> tuple[Ids, Ids]:
        """(which, edge): all edges whose tail is entities[which]."""
        return slices(self._starts[entities], self._starts[entities + 1])

    def degree(self, entities: Ids) -> Ids:
        """The number of edges that start at each entity."""
        return np.asarray(self._starts[entities + 1] - self._starts[entities])

    def neighbours(self, entity: int, atom: int) -> Ids:
        """The entities that an atom leads to."""
        start, end = self._starts[entity], self._starts[entity + 1]
        return np.asarray(self.head[start:end][self.atom[start:end] == atom])

    def of_pairs(self, tails: Ids, heads: Ids) -> tuple[Ids, Ids]:
        """(which, edge): all edges from tails[which] to heads[which]."""
        keys = tails * self.num_entities + heads
        return slices(
            np.searchsorted(self._pair_keys, keys, side="left"), np.searchsorted(self._pair_keys, keys, side="right")
        )

    def states(self, facts: FactIds) -> NDArray[np.bool_]:
        """Tells which of these facts are in the list."""
        pair, edge = self.of_pairs(facts[:, 0], facts[:, 2])
        return np.bincount(pair[self.atom[edge] == facts[pair, 1]], minlength=len(facts)) > 0

    def edges_of(self, subject: int, predicate: int, object_: int) -> Ids:
        """A fact, forwards and inverted; none where it is not in the list."""
        ends, atoms = np.array([subject, object_]), np.array([predicate, predicate + self.num_predicates])
        which, edge = self.of_pairs(ends, ends[::-1])
        return np.asarray(edge[self.atom[edge] == atoms[which]])

    def num_walks(self, length: int) -> Float[np.ndarray, " entity"]:
        """The number of walks of this length that start at each entity."""
        walks = np.ones(self.num_entities)
        for _ in range(length):
            walks = np.bincount(self.tail, walks[self.head], self.num_entities).astype(np.float64)
        return walks

    def paths(self, subjects: Ids, objects: Ids, template: Template) -> Paths:
        """All groundings of a template for the pairs: paths between the two, or the edges of one of them."""
        if template.unary:
            entities = subjects if template.about_subject else objects
            pair, edge = self.of_entities(entities)
            return Paths(pair, self.atom[edge][:, None], np.column_stack([entities[pair], self.head[edge]]))
        return self._chains(subjects, objects, template.length)

    def _chains(self, subjects: Ids, objects: Ids, length: int) -> Paths:
        if length == 1:
            pair, edge = self.of_pairs(subjects, objects)
            return Paths(pair, self.atom[edge][:, None], np.column_stack([subjects[pair], objects[pair]]))
        pair, first = self.of_entities(subjects)
        rest = self._chains(self.head[first], objects[pair], length - 1)
        pair, first = pair[rest.pair], first[rest.pair]
        return Paths(
            pair, np.column_stack([self.atom[first], rest.atoms]), np.column_stack([subjects[pair], rest.stations])
        )

    def degrees(self, weights: Float[np.ndarray, "reformulator atom"]) -> Float[np.ndarray, "reformulator entity"]:
        """Weighted number of edges of every entity."""
        return np.stack([np.bincount(self.tail, row[self.atom], self.num_entities) for row in weights])

    def push(
        self,
        start: int | slice,
        places: Float[np.ndarray, "reformulator place atom"],
        without: Int[np.ndarray, " edge"] | slice = NO_EDGES,
    ) -> Float[np.ndarray, "reformulator entity"]:
        """Weighted number of paths from `start` to every entity, one step along all edges for each body place.

        From EVERYTHING the numbers of all starts are added up. No path takes an edge of `without`.
        """
        frontier = np.zeros((places.shape[0], self.num_entities))
        frontier[:, start] = 1
        for place in range(places.shape[1]):
            weights = frontier[:, self.tail] * places[:, place, self.atom]  # [reformulator, edge]
            weights[:, without] = 0
            frontier = np.stack([np.bincount(self.head, row, self.num_entities) for row in weights])
        return frontier


def atom_tables(
    facts: FactIds, num_entities: int, num_predicates: int, device: torch.device
) -> Float[Tensor, "atom entity entity"]:
    """1 where a fact holds: predicates first, then their inverses."""
    tables = torch.zeros(2 * num_predicates, num_entities, num_entities, device=device)
    subject, predicate, object_ = torch.from_numpy(facts).to(device).unbind(1)
    tables[predicate, subject, object_] = 1
    tables[num_predicates + predicate, object_, subject] = 1
    return tables
