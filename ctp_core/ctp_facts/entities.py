"""Exact search with soft entities: the best fact for an atom, over all facts and all values of an open variable.

Everything is a distance, because K = exp(-slope · distance) is decreasing: ⊕ (max) is the smaller distance, and each
t-norm says what ⊗ is on distances. For an atom (v, a, b) and a fact r(s, o), the squared distances of the three places
join by + (`concat`) or max (`per_symbol`). Either way the search over facts splits into two steps,

    min over facts of |v-r| ∘ |a-s| ∘ |b-o|  =  min over o of (min over facts with object o of |v-r| ∘ |a-s|) ∘ |b-o|

so the search for all b at once costs facts + entities², not facts × entities.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray

from ctp_core.base.deadline import Expired, look, never
from ctp_core.kb.knowledge_base import FactIds

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class FactGroups:
    """Facts grouped by the entity at one end and by predicate. Groups of one entity are adjacent."""

    facts: Ids
    place: Ids  # position of each fact in `facts`; the last entry, -1, serves NO_FACT
    others: Ids  # entity at the other end of each fact, in the order of `facts`
    first_fact: Ids  # where each group starts in `facts`, and where the last one ends
    predicates: Ids  # predicate of each group
    first_group: Ids  # first group of each entity, and the end of the last group
    group: Int[np.ndarray, "entity predicate"]
    absent: Float[np.ndarray, "entity predicate"]  # ∞ where there is no such group, else 0

    @classmethod
    def of(cls, entities: Ids, predicates: Ids, others: Ids, shape: tuple[int, int]) -> "FactGroups":
        """Groups facts given by columns; `shape` is (number of entities, number of predicates)."""
        order = np.lexsort((predicates, entities))
        key = np.ravel_multi_index((entities[order], predicates[order]), shape)
        known, first = np.unique(key, return_index=True)
        owners, of_groups = np.unravel_index(known, shape)
        place = np.append(np.argsort(order), -1)
        group, absent = np.zeros(shape, dtype=np.int64), np.full(shape, np.inf, dtype=np.float32)
        group[owners, of_groups], absent[owners, of_groups] = np.arange(len(known)), 0
        starts = np.append(first, len(order)), np.searchsorted(owners, np.arange(shape[0] + 1))
        return cls(order, place, others[order], starts[0], of_groups, starts[1], group, absent)


def members(starts: Ids, groups: Ids) -> tuple[Ids, Ids]:
    """(index into `groups`, member) for every member of these groups; the members of group g begin at starts[g]."""
    first = starts[groups]
    sizes = starts[groups + 1] - first
    index = np.arange(len(groups)).repeat(sizes)
    return index, np.arange(len(index)) + (first - sizes.cumsum() + sizes)[index]


Floats = NDArray[np.floating[Any]]  # float32 while learning, for speed
Flips = tuple[bool, ...]  # for each atom along a path: does its fact point against the path?
Join = Callable[..., Floats]  # a NumPy function of two arrays that takes `out`
JOINS: dict[str, Join] = {"concat": np.add, "per_symbol": np.maximum}
NO_FACT = -1
ROUNDING = 1e-5  # relative error of a distance in float32
TOGETHER = 1 << 15  # cells of a table that fit into the cache
MAX_JOINED = 1 << 22  # cells of the largest table built for only some entities of each query


@dataclass(frozen=True)
class _Side:
    """Facts sorted by one of their columns, so that the facts of a symbol are a slice."""

    order: Ids
    starts: Ids
    symbols: Ids

    @classmethod
    def of(cls, column: Ids) -> "_Side":
        order = np.argsort(column, kind="stable")
        symbols, starts = np.unique(column[order], return_index=True)
        return cls(order, starts, symbols)


@dataclass(frozen=True)
class PredicateFacts:
    """The facts of one predicate, sorted by object; those with object objects[g] begin at starts[g]."""

    rows: Ids  # indices into all facts
    subject: Ids
    object: Ids
    objects: Ids
    starts: Ids

    def __len__(self) -> int:
        return len(self.rows)


class SoftFacts:
    """The facts to search. Built once, they serve any vectors."""

    def __init__(self, facts: FactIds, num_predicates: int) -> None:
        self.facts, self.num_predicates = facts, num_predicates
        self.subject, self.predicate, self.object = (np.ascontiguousarray(column) for column in facts.T)
        self._groups: dict[tuple[int, bool], FactGroups] = {}
        self._pairs: dict[int, tuple[Ids, Ids]] = {}

    def pairs(self, num_entities: int) -> tuple[Ids, Ids]:
        """Facts sorted by their pair of entities, and where the facts of each pair begin."""
        if num_entities not in self._pairs:
            key = self.subject * num_entities + self.object
            order = np.argsort(key, kind="stable")
            self._pairs[num_entities] = order, np.searchsorted(key[order], np.arange(num_entities**2 + 1))
        return self._pairs[num_entities]

    def groups(self, num_entities: int, *, by_object: bool) -> FactGroups:
        """Facts grouped by subject or object, for this many entities; built on first use."""
        if (num_entities, by_object) not in self._groups:
            ends = (self.object, self.subject) if by_object else (self.subject, self.object)
            shape = (num_entities, self.num_predicates)
            self._groups[num_entities, by_object] = FactGroups.of(ends[0], self.predicate, ends[1], shape)
        return self._groups[num_entities, by_object]

    @cached_property
    def of_predicate(self) -> tuple[PredicateFacts, ...]:
        return tuple(self._of(predicate) for predicate in range(self.num_predicates))

    def _of(self, predicate: int) -> PredicateFacts:
        rows = np.flatnonzero(self.predicate == predicate)
        side = _Side.of(self.object[rows])
        rows = rows[side.order]
        return PredicateFacts(rows, self.subject[rows], self.object[rows], side.symbols, side.starts)


def _masked(distances: Float[np.ndarray, "fact query"], own: Ids) -> Floats:
    """Sets the distance of the fact that a query may not use to ∞."""
    masked = np.flatnonzero(own != NO_FACT)
    distances[own[masked], masked] = np.inf
    return distances


def _smallest(values: Float[np.ndarray, "item column"], group: Ids, num_groups: int) -> Floats:
    """The smallest value of each group in every column, ∞ for an empty group.

    Uses torch, whose scatter works on whole rows; NumPy's reduceat walks down each column separately.
    """
    best = torch.full((num_groups, values.shape[1]), torch.inf, dtype=torch.from_numpy(values).dtype)
    index = torch.from_numpy(group)[:, None].expand(values.shape)
    return np.asarray(best.scatter_reduce_(0, index, torch.from_numpy(values), "amin").numpy())


class SoftSearch:
    """Searches with one set of vectors. `costs` are squared distances of goals to all predicates, [query, predicate].

    Tables have facts as rows and queries as columns, so that the values of one fact for all queries are adjacent.
    """

    def __init__(self, facts: SoftFacts, squared: Float[np.ndarray, "entity entity"], unification: str) -> None:
        self.facts, self.squared, self.join = facts, squared, JOINS[unification]

    def _near(self, entities: Ids, met: Ids) -> Float[np.ndarray, "fact query"]:
        """Squared distance of each query's entity to the entity of each fact."""
        return np.take(self.squared[:, entities], met, axis=0)

    def groups(self, *, by_object: bool) -> FactGroups:
        return self.facts.groups(len(self.squared), by_object=by_object)

    def between(self, some: Ids, others: Ids) -> Float[np.ndarray, " pair"]:
        return self.squared.ravel().take(some * len(self.squared) + others)

    def entities(self, subjects: Ids, objects: Ids, own: Ids) -> Float[np.ndarray, "fact query"]:
        """Squared distance of each pair of entities to the pair of every fact; it does not depend on the predicate."""
        near_subject, near_object = self._near(subjects, self.facts.subject), self._near(objects, self.facts.object)
        return _masked(self.join(near_subject, near_object, out=near_object), own)

    def pair(self, costs: Floats, entities: Float[np.ndarray, "fact query"]) -> Float[np.ndarray, "fact query"]:
        """Squared distance of each atom to every fact, given the squared distances of its entities."""
        return np.asarray(self.join(self._of_facts(costs, self.facts.predicate), entities))

    def row(
        self, costs: Floats, entities: Ids, own: Ids, *, open_subject: bool = False
    ) -> Float[np.ndarray, "query entity"]:
        """Distance to the best fact, for every entity in the open place."""
        nearest = self._open(costs, entities, own, open_subject=open_subject)
        return np.asarray(np.sqrt(self._to_open(nearest, self.squared)))

    def _open(self, costs: Floats, entities: Ids, own: Ids, *, open_subject: bool) -> Float[np.ndarray, "query entity"]:
        """Squared distance to the best fact that has exactly that entity in the open place."""
        facts = self.facts
        open_, fixed = (facts.subject, facts.object) if open_subject else (facts.object, facts.subject)
        near_fixed = self._near(entities, fixed)
        costs = self._of_facts(costs, facts.predicate)
        joined = _masked(self.join(costs, near_fixed, out=near_fixed), own)
        return np.ascontiguousarray(_smallest(joined, open_, len(self.squared)).T)

    def to_open_within(
        self, nearest: Float[np.ndarray, "query entity"], limit: Float[np.ndarray, " query"]
    ) -> Float[np.ndarray, "query entity"]:
        """Like `_to_open`, but exact only within the limit; larger values are merely beyond the limit."""
        close = self.join(nearest, self._to_another) <= limit[:, None]
        query, entity = np.divmod(close.ravel().nonzero()[0], nearest.shape[1])
        if 2 * len(query) > nearest.size or len(query) * nearest.shape[1] > MAX_JOINED:
            return self._to_open(nearest, self.squared)
        joined = self.join(nearest[query, entity][:, None], self.squared[entity])
        return np.asarray(np.minimum(nearest, _smallest(joined, query, len(nearest))))

    @cached_property
    def _to_another(self) -> Float[np.ndarray, " entity"]:
        """Squared distance of every entity to its nearest other entity."""
        others = self.squared.copy()
        np.fill_diagonal(others, np.inf)
        return np.asarray(others.min(1))

    def _of_facts(self, costs: Floats, predicates: Ids) -> Float[np.ndarray, "fact query"]:
        return np.take(np.ascontiguousarray(costs.T), predicates, axis=0)

    def _to_open(self, nearest: Floats, to_open: Float[np.ndarray, "open entity"]) -> Float[np.ndarray, "query entity"]:
        """Minimum of nearest ∘ to_open over the open place, in blocks of queries."""
        best = np.empty((len(nearest), to_open.shape[1]), dtype=nearest.dtype)
        size = max(1, TOGETHER // to_open.size)
        for start in range(0, len(nearest), size):
            some = slice(start, start + size)
            self.join(nearest[some, :, None], to_open).min(1, out=best[some])
        return best

    def table(self, costs: Float[np.ndarray, " predicate"], own: int = NO_FACT) -> Float[np.ndarray, "entity entity"]:
        """Distance to the best fact for every pair (subject, object): `row` for every subject."""
        everyone = np.arange(len(self.squared))
        return self.row(
            np.broadcast_to(costs, (len(everyone), len(costs))), everyone, np.full(len(everyone), own, dtype=np.int64)
        )


def contract(left: Floats, right: Floats, times: Join, expired: Expired = never) -> Float[np.ndarray, "row column"]:
    """Matrix product of distances: the minimum of left ⊗ right over the entity in the middle; raises OutOfTime."""
    best = np.full((left.shape[0], right.shape[1]), np.inf, dtype=left.dtype)
    joined = np.empty_like(best)
    for column, row in zip(left.T, right, strict=True):
        look(expired)
        times(column[:, None], row[None, :], out=joined)
        np.minimum(best, joined, out=best)
    return best
