"""A KB as a list of edges: every fact once forwards and once as the inverse of its predicate."""

from collections import OrderedDict
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from ctp_core.base.weighed_edges import Barred, WeighedEdges
from ctp_core.kb.knowledge_base import FactIds, FactSet, sorted_facts
from ctp_core.rules import Template

Ids = NDArray[np.int64]


def slices(starts: Ids, ends: Ids) -> tuple[Ids, Ids]:
    """The slices starts[i]:ends[i] end to end, with the i each element came from."""
    lengths = ends - starts
    which = np.repeat(np.arange(len(starts)), lengths)
    offsets = np.cumsum(lengths) - lengths
    return which, np.arange(len(which)) + (starts - offsets)[which]


TABLE_ENTRIES = 50_000_000  # row pointers of the tables that are kept: 200 MB
MIN_TABLES = 64
MAX_KEY = 2.0**62


class Paths(NamedTuple):
    """Groundings of one template for a list of pairs: path i belongs to pair `pair[i]` and passes its `stations`."""

    pair: Int[np.ndarray, " path"]
    atoms: Int[np.ndarray, "path place"]
    stations: Int[np.ndarray, "path place+1"]


class AtomTables:
    """The tables of an edge list, each made when it is asked for; of many, only those used last are kept.

    A table has an entry for every entity, so that a thousand predicates of a large KB would not fit in memory at once.
    """

    def __init__(self, edges: "EdgeList") -> None:
        order = np.argsort(
            small(edges.atom, 2 * edges.num_predicates), kind="stable"
        )  # within an atom by tail, then head, as the edges are
        self._tail, self._head = edges.tail[order], edges.head[order].astype(np.int32)
        self._bounds = np.searchsorted(edges.atom[order], np.arange(2 * edges.num_predicates + 1))
        self._num_entities = edges.num_entities
        self._kept = max(MIN_TABLES, TABLE_ENTRIES // max(1, edges.num_entities))
        self._made: OrderedDict[int, sparse.csr_array] = OrderedDict()  # the least used first

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, atom: int) -> sparse.csr_array:
        if atom not in self._made:
            self._made[atom] = self._make(range(len(self))[atom])
            if len(self._made) > self._kept:
                self._made.popitem(last=False)
        self._made.move_to_end(atom)
        return self._made[atom]

    def _make(self, atom: int) -> sparse.csr_array:
        start, end = self._bounds[atom : atom + 2]
        rows = np.bincount(self._tail[start:end], minlength=self._num_entities)
        starts = np.concatenate([np.zeros(1, dtype=np.int32), np.cumsum(rows, dtype=np.int32)])
        parts = (np.ones(end - start, dtype=np.int32), self._head[start:end], starts)
        return sparse.csr_array(parts, shape=(self._num_entities, self._num_entities))


class Steps:
    """All edges as one sparse 0/1 table [step, head]: many steps along different atoms are one gather, or one product.

    A step is an atom and the entity it is taken from; the last row is empty, for those that lead nowhere.
    """

    def __init__(self, edges: "EdgeList") -> None:
        order = np.argsort(small(edges.atom, 2 * edges.num_predicates), kind="stable")
        keys = edges.atom[order] * edges.num_entities + edges.tail[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        self._num_entities = edges.num_entities
        self._keys = np.append(keys[first], np.iinfo(np.int64).max)
        starts = np.append(first, [len(keys), len(keys)])
        self.lengths = np.diff(starts)
        parts = (np.ones(len(keys), dtype=np.float32), edges.head[order], starts)
        self.table = sparse.csr_array(parts, shape=(len(self._keys), edges.num_entities))

    def find(self, atoms: Ids, entities: NDArray[np.integer]) -> Ids:
        """The row of each atom from its entity."""
        wanted = atoms * self._num_entities + entities
        place = np.searchsorted(self._keys, wanted)
        return np.where(self._keys[place] == wanted, place, len(self._keys) - 1)

    def degrees(self, atom: int) -> tuple[Ids, Ids]:
        """The entities that have edges of this atom, and how many."""
        first, last = np.searchsorted(self._keys, np.array([atom, atom + 1]) * self._num_entities)
        return self._keys[first:last] - atom * self._num_entities, self.lengths[first:last]


def _half(allowed: Bool[np.ndarray, "place atom"]) -> int:
    """How many places of a path are walked from its start; the others are walked from its end."""
    return (len(allowed) + 1) // 2


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
        order = _sorted(tail, head, atom, max(1, num_entities), 2 * max(1, num_predicates))
        self.tail, self.head, self.atom = tail[order], head[order], atom[order]
        self._pair_keys = self.tail * num_entities + self.head
        self._starts = np.searchsorted(self.tail, np.arange(num_entities + 1))
        self._walks = {0: np.ones(num_entities)}

    @cached_property
    def tables(self) -> "AtomTables":
        """The same edges as one sparse 0/1 table [tail, head] for each atom: a predicate or, shifted by their number,
        its inverse."""
        return AtomTables(self)

    @cached_property
    def steps(self) -> "Steps":
        """The same edges as one table for all atoms."""
        return Steps(self)

    @cached_property
    def subjects_by(self) -> Int[np.ndarray, " atom"]:
        """How many entities have an edge of each atom."""
        stated = np.unique(self.tail * (2 * self.num_predicates) + self.atom)
        return np.bincount(stated % (2 * self.num_predicates), minlength=2 * self.num_predicates)

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
        return self._stated.states(facts)

    @cached_property
    def _stated(self) -> FactSet:
        return FactSet(self.facts, self.num_entities, self.num_predicates)

    def num_walks(self, length: int) -> Float[np.ndarray, " entity"]:
        """The number of walks of this length that start at each entity."""
        if length not in self._walks:
            shorter = self.num_walks(length - 1)
            self._walks[length] = np.bincount(self.tail, shorter[self.head], self.num_entities).astype(np.float64)
        return self._walks[length]

    def paths(
        self,
        subjects: Ids,
        objects: Ids,
        template: Template,
        allowed: Bool[np.ndarray, "place atom"] | None = None,
    ) -> Paths:
        """All groundings of a template for the pairs: paths between the two, or the edges of one of them.

        Of paths between two, only those along `allowed` atoms, where these are given.
        """
        if template.unary:
            entities = subjects if template.about_subject else objects
            pair, edge = self.of_entities(entities)
            return Paths(pair, self.atom[edge][:, None], np.column_stack([entities[pair], self.head[edge]]))
        if allowed is not None:
            return self._joined(subjects, objects, allowed)
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

    def _joined(self, subjects: Ids, objects: Ids, allowed: Bool[np.ndarray, "place atom"]) -> Paths:
        """Walks half of the places from either end, once from each entity, and joins the halves where they meet."""
        half = _half(allowed)
        starts, subject = np.unique(subjects, return_inverse=True)
        ends, object_ = np.unique(objects, return_inverse=True)
        there = self._along(starts, allowed[:half])
        back = self._along(ends, self._turned(allowed[half:]))
        met = there.pair * self.num_entities + there.stations[:, -1]
        order = np.argsort(met, kind="stable")
        bounds = np.searchsorted(back.pair, np.arange(len(ends) + 1))
        pair, walk = slices(bounds[object_], bounds[object_ + 1])
        wanted = subject[pair] * self.num_entities + back.stations[walk, -1]
        which, entry = slices(*(np.searchsorted(met[order], wanted, side=side) for side in ("left", "right")))
        first, last = order[entry], walk[which]
        turned = (back.atoms[last, ::-1] + self.num_predicates) % (2 * self.num_predicates)
        return Paths(
            pair[which],
            np.column_stack([there.atoms[first], turned]),
            np.column_stack([there.stations[first], back.stations[last, -2::-1]]),
        )

    def _along(self, starts: Ids, allowed: Bool[np.ndarray, "place atom"]) -> Paths:
        """All walks along allowed atoms, by their start."""
        found = Paths(np.arange(len(starts)), np.zeros((len(starts), 0), dtype=np.int64), starts[:, None])
        for place in allowed:
            atoms = np.flatnonzero(place)
            steps = self.steps.find(atoms, found.stations[:, -1:]).ravel()
            taken, entry = slices(self.steps.table.indptr[steps], self.steps.table.indptr[steps + 1])
            walk, atom = np.divmod(taken, max(1, len(atoms)))
            found = Paths(
                found.pair[walk],
                np.column_stack([found.atoms[walk], atoms[atom]]),
                np.column_stack([found.stations[walk], self.steps.table.indices[entry]]),
            )
        return found

    def paths_along_fit(
        self, subjects: Ids, objects: Ids, allowed: Bool[np.ndarray, "place atom"], most: float
    ) -> bool:
        """Whether `paths` along allowed atoms takes at most so many walks from either end, and finds at most as many.

        Paths between any of the subjects and any of the objects count, so that pairs may have fewer.
        """
        half = _half(allowed)
        there = self._ends_along(subjects, allowed[:half], most)
        back = None if there is None else self._ends_along(objects, self._turned(allowed[half:]), most)
        return there is not None and back is not None and bool(there @ back <= most)

    def _ends_along(
        self, starts: Ids, allowed: Bool[np.ndarray, "place atom"], most: float
    ) -> Float[np.ndarray, " entity"] | None:
        """How many walks along allowed atoms end at each entity, once from each start; None if they are too many."""
        here = np.zeros(self.num_entities)
        here[starts] = 1
        for atoms in allowed:
            kept = np.flatnonzero(atoms[self.atom])
            here = np.asarray(np.bincount(self.head[kept], here[self.tail[kept]], self.num_entities), dtype=np.float64)
            if here.sum() > most:
                return None
        return here

    def _turned(self, allowed: Bool[np.ndarray, "place atom"]) -> Bool[np.ndarray, "place atom"]:
        """The same places read from their end: in reverse, with every atom inverted."""
        return np.roll(allowed[::-1], self.num_predicates, axis=1)

    def degrees(self, weights: Float[np.ndarray, "reformulator atom"]) -> Float[np.ndarray, "reformulator entity"]:
        """Weighted number of edges of every entity."""
        return np.stack([np.bincount(self.tail, row[self.atom], self.num_entities) for row in weights])

    def at(self, entities: Ids) -> Float[np.ndarray, "start entity"]:
        """One path that has not begun yet, at each of the entities."""
        here = np.zeros((len(entities), self.num_entities))
        here[np.arange(len(entities)), entities] = 1
        return here

    def push(
        self,
        begun: Float[np.ndarray, "start entity"],
        places: Float[np.ndarray, "reformulator place atom"],
        own: FactIds | None = None,
    ) -> Float[np.ndarray, "start reformulator entity"]:
        """Weighted number of paths to every entity, one step along all edges for each body place.

        No path of a start takes its `own` fact, forwards or inverted.
        """
        rows = np.zeros(0, dtype=np.int64) if own is None else np.flatnonzero(self.states(own))
        barred = np.zeros((0, 3), dtype=np.int64) if own is None else own[rows]
        return self._weighed.push(begun, places, Barred(rows, barred))

    @cached_property
    def _weighed(self) -> WeighedEdges:
        return WeighedEdges(self.tail, self.head, self.atom, self.num_entities)


def small(atoms: Ids, num_atoms: int) -> NDArray[np.integer]:
    """The atoms as numbers of two bytes where they fit, because numpy sorts these by counting, which is faster."""
    return atoms.astype(np.uint16) if num_atoms <= np.iinfo(np.uint16).max else atoms


def _sorted(tail: Ids, head: Ids, atom: Ids, num_entities: int, num_atoms: int) -> Ids:
    """The order by tail, head and atom; by one number for all three where they fit, which is far faster."""
    if float(num_entities) ** 2 * num_atoms < MAX_KEY:
        return np.argsort((tail * num_entities + head) * num_atoms + atom, kind="stable")
    return np.lexsort((atom, head, tail))


def atom_tables(
    facts: FactIds, num_entities: int, num_predicates: int, device: torch.device
) -> Float[Tensor, "atom entity entity"]:
    """1 where a fact holds: predicates first, then their inverses."""
    tables = torch.zeros(2 * num_predicates, num_entities, num_entities, device=device)
    subject, predicate, object_ = torch.from_numpy(facts).to(device).unbind(1)
    tables[predicate, subject, object_] = 1
    tables[num_predicates + predicate, object_, subject] = 1
    return tables
