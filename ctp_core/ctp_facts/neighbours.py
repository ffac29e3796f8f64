"""Which entities may be taken for which, where a KB has too many for tables of all pairs: each for its nearest."""

from dataclasses import dataclass

import faiss
import numpy as np
from jaxtyping import Float, Int

from ctp_core.ctp_facts.entities import JOINS, Floats, Ids, SoftFacts
from ctp_core.ctp_facts.theory import SoftTheory

EXACT_UP_TO = 20_000  # entities; more are looked for in cells around centres, which misses a few neighbours
PROBED = 16  # cells looked into for each entity
POINTS_A_CELL = 100


@dataclass(frozen=True)
class Neighbours:
    """Pairs (goal's entity, fact's entity) that may meet, in order; each entity meets itself.

    Only where each of the two is among the nearest of the other: an entity that is near to very many would
    otherwise bring all facts of the KB to each of them.
    """

    starts: Int[np.ndarray, " entity+1"]
    others: Int[np.ndarray, " pair"]

    @classmethod
    def of(cls, nearest: Int[np.ndarray, "known k"], num_entities: int | None = None) -> "Neighbours":
        """`nearest` holds -1 for none. Entities beyond those it lists meet only themselves."""
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
    """The `wanted` nearest of each entity, itself among them; -1 where fewer were found."""
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
    """Every fact between all pairs of entities that may be taken for its own: edges (subject, object, fact).

    `squared` is the squared distance of the pair to the fact's entities, all that a step needs besides the predicate.
    At most facts · k² edges, sorted by subject and object.
    """

    def __init__(self, facts: Int[np.ndarray, "fact 3"], neighbours: Neighbours, squared: Floats, unification: str):
        size = len(neighbours)
        left, right = (_repeated(neighbours, facts[:, place]) for place in (0, 2))
        counts = np.bincount(right.fact, minlength=len(facts))[left.fact]  # every left one with all right ones
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
        """(index into `entities`, edge) for every edge from their subjects on, or with `flip` from their objects."""
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
    """By the vectors and the nearest entities that the theory holds; entities without a vector meet themselves."""
    vectors = theory.entities.detach().cpu().numpy()
    neighbours = Neighbours.of(theory.nearest.cpu().numpy(), num_entities)
    squared = np.zeros(len(neighbours.others), dtype=vectors.dtype)
    apart = np.flatnonzero(neighbours.entities != neighbours.others)
    gap = vectors[neighbours.entities[apart]] - vectors[neighbours.others[apart]]
    squared[apart] = (gap**2).sum(1)
    return SoftEdges(facts.facts, neighbours, squared, theory.config.unification)


@dataclass(frozen=True)
class _Repeated:
    """For every fact all entities that may be taken for one of its own, and the pair which says so."""

    fact: Ids
    entity: Ids
    pair: Ids


def _repeated(neighbours: Neighbours, entities: Ids) -> _Repeated:
    # Mutual, so that the pairs of an entity are also those in which it is the fact's.
    counts = neighbours.counts[entities]
    pair = _ranges(neighbours.starts[entities], counts)
    return _Repeated(np.repeat(np.arange(len(entities)), counts), neighbours.others[pair], pair)


def _ranges(starts: Ids, counts: Ids) -> Ids:
    """starts[i], starts[i] + 1, … counts[i] of them, one after the other."""
    ends = np.cumsum(counts)
    return np.asarray(np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts))
