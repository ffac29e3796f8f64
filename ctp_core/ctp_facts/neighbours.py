"""Which entities may stand in for which on a KB too large for tables of all pairs: only the nearest ones."""

from dataclasses import dataclass

import faiss
import numpy as np
from jaxtyping import Float, Int

from ctp_core.ctp_facts.entities import JOINS, Floats, Ids, SoftFacts
from ctp_core.ctp_facts.theory import SoftTheory

EXACT_UP_TO = 20_000  # entities; above it faiss searches only some cells, and misses a few neighbours
PROBED = 16  # cells searched for each entity
POINTS_A_CELL = 100


@dataclass(frozen=True)
class Neighbours:
    """Sorted pairs (goal's entity, fact's entity) that may unify; every entity unifies with itself.

    Two entities are a pair only where each is among the nearest of the other. Otherwise an entity near to very many
    would bring its facts to all of them.
    """

    starts: Int[np.ndarray, " entity+1"]
    others: Int[np.ndarray, " pair"]

    @classmethod
    def of(cls, nearest: Int[np.ndarray, "known k"], num_entities: int | None = None) -> "Neighbours":
        """`nearest` holds -1 for no neighbour. Entities with a number beyond its rows unify only with themselves."""
        known, size = len(nearest), num_entities or len(nearest)
        entity = np.repeat(np.arange(known), nearest.shape[1])
        there, back = entity * size + nearest.ravel(), nearest.ravel() * size + entity
        mutual = there[(nearest.ravel() >= 0) & np.isin(there, back)]
        pairs = np.unique(np.concatenate([mutual, np.arange(size) * (size + 1)]))
        return cls(np.searchsorted(pairs, np.arange(size + 1) * size), pairs % size)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> Int[np.ndarray, " entity"]:
        return np.diff(self.starts)

    @property
    def entities(self) -> Int[np.ndarray, " pair"]:
        return np.repeat(np.arange(len(self)), self.counts)


def nearest_entities(vectors: Float[np.ndarray, "entity dim"], wanted: int) -> Int[np.ndarray, "entity k"]:
    """The `wanted` nearest entities of each entity, itself included; -1 where fewer were found."""
    vectors, wanted = np.ascontiguousarray(vectors, dtype=np.float32), min(wanted, len(vectors))
    index = _cells(vectors) if len(vectors) > EXACT_UP_TO else faiss.IndexFlatL2(vectors.shape[1])
    index.add(vectors)
    return np.asarray(index.search(vectors, wanted)[1], dtype=np.int64)


def _cells(vectors: Floats) -> faiss.Index:
    dim = vectors.shape[1]
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(dim), dim, len(vectors) // POINTS_A_CELL)
    index.nprobe = PROBED
    index.train(vectors)
    return index


class SoftEdges:
    """An edge (subject, object, fact) for every fact and every pair of entities that may stand in for its own.

    `squared` is the squared distance of that pair to the fact's entities. There are at most facts · k² edges, sorted
    by subject and object.
    """

    def __init__(self, facts: Int[np.ndarray, "fact 3"], neighbours: Neighbours, squared: Floats, unification: str):
        size = len(neighbours)
        left, right = (_repeated(neighbours, facts[:, place]) for place in (0, 2))
        counts = np.bincount(right.fact, minlength=len(facts))[
            left.fact
        ]  # each stand-in for the subject with all stand-ins for the object
        first = np.repeat(np.arange(len(left.fact)), counts)
        second = _ranges(np.searchsorted(right.fact, left.fact), counts)
        subject, object_, fact = left.entity[first], right.entity[second], left.fact[first]
        met = JOINS[unification](squared[left.pair[first]], squared[right.pair[second]])
        order = np.argsort(subject * size + object_, kind="stable")
        self.facts, self.predicate, self.size = facts, np.ascontiguousarray(facts[:, 1]), size
        self.subject, self.object, self.fact, self.squared = subject[order], object_[order], fact[order], met[order]
        self._keys = self.subject * size + self.object
        self._by_object = np.argsort(self.object, kind="stable")
        everyone = np.arange(size + 1)
        self._starts = np.searchsorted(self.subject, everyone)
        self._object_starts = np.searchsorted(self.object[self._by_object], everyone)

    def __len__(self) -> int:
        return len(self.fact)

    def degrees(self, entities: Ids, flip: bool) -> Ids:
        starts = self._object_starts if flip else self._starts
        return np.asarray(starts[entities + 1] - starts[entities])

    def leaving(self, entities: Ids, flip: bool) -> tuple[Ids, Ids]:
        """(index into `entities`, edge) for every edge with that subject, or with `flip` with that object."""
        counts = self.degrees(entities, flip)
        source = np.repeat(np.arange(len(entities)), counts)
        place = _ranges((self._object_starts if flip else self._starts)[entities], counts)
        return source, self._by_object[place] if flip else place

    def between(self, starts: Ids, ends: Ids, flip: bool) -> tuple[Ids, Ids]:
        """(index, edge) for every edge from a start to the end of the same index."""
        keys = ends * self.size + starts if flip else starts * self.size + ends
        first, last = (np.searchsorted(self._keys, keys, side=side) for side in ("left", "right"))
        return np.repeat(np.arange(len(keys)), last - first), _ranges(first, last - first)


def soft_edges(theory: SoftTheory, facts: SoftFacts, num_entities: int) -> SoftEdges:
    """Edges by the theory's vectors and nearest entities; an entity without a vector unifies only with itself."""
    vectors = theory.entities.detach().cpu().numpy()
    neighbours = Neighbours.of(theory.nearest.cpu().numpy(), num_entities)
    squared = np.zeros(len(neighbours.others), dtype=vectors.dtype)
    apart = np.flatnonzero(neighbours.entities != neighbours.others)
    gap = vectors[neighbours.entities[apart]] - vectors[neighbours.others[apart]]
    squared[apart] = (gap**2).sum(1)
    return SoftEdges(facts.facts, neighbours, squared, theory.config.unification)


@dataclass(frozen=True)
class _Repeated:
    """For every fact, the entities that may stand in for one of its own, and the index of each such pair."""

    fact: Ids
    entity: Ids
    pair: Ids


def _repeated(neighbours: Neighbours, entities: Ids) -> _Repeated:
    # Pairs are mutual, so the pairs of an entity are also those in which it is the fact's entity.
    counts = neighbours.counts[entities]
    pair = _ranges(neighbours.starts[entities], counts)
    return _Repeated(np.repeat(np.arange(len(entities)), counts), neighbours.others[pair], pair)


def _ranges(starts: Ids, counts: Ids) -> Ids:
    """Concatenates the ranges starts[i] … starts[i] + counts[i] - 1."""
    ends = np.cumsum(counts)
    return np.asarray(np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts))
