"""Exact search with soft entities: the best fact for an atom, over all facts and all places of an open variable.

Everything is a distance, because K = exp(-slope · distance) only falls: ⊕ (max) is the smaller distance, ⊗ the
larger of two for max-min and their sum for max-product. For an atom (v, a, b) and a fact r(s, o) the squared
distances of the three places join by + (`concat`) or max (`per_symbol`). Either way the search over facts splits,

    min over facts of |v-r| ∘ |a-s| ∘ |b-o|  =  min over o of (min over facts with object o of |v-r| ∘ |a-s|) ∘ |b-o|

so that all b at once cost facts + entities², not facts × entities.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ctp_core.datasets.kb import FactIds

Floats = NDArray[np.floating[Any]]  # float32 while learning, for speed
Ids = NDArray[np.int64]
Flips = tuple[bool, ...]  # of each atom along a path: does its fact lie against it?
Join = Callable[..., Floats]  # numpy's binary functions, which take `out`
JOINS: dict[str, Join] = {"concat": np.add, "per_symbol": np.maximum}
TIMES: dict[str, Join] = {"max-min": np.maximum, "max-product": np.add}
NO_FACT = -1
ROUNDING = 1e-5  # of a distance in float32
TOGETHER = 1 << 15  # cells of a table that stay in the cache
MAX_JOINED = 1 << 22  # cells of a table that is made for a few entities of each query


@dataclass(frozen=True)
class _Side:
    """Facts in the order of one of their symbols, so that a minimum per symbol is a slice."""

    order: Ids
    starts: Ids
    symbols: Ids

    @classmethod
    def of(cls, column: Ids) -> "_Side":
        order = np.argsort(column, kind="stable")
        symbols, starts = np.unique(column[order], return_index=True)
        return cls(order, starts, symbols)

    @cached_property
    def place(self) -> Ids:
        """Where each fact stands in the order; the last entry is for no fact."""
        place = np.full(len(self.order) + 1, NO_FACT, dtype=np.int64)
        place[self.order] = np.arange(len(self.order))
        return place


@dataclass(frozen=True)
class PredicateFacts:
    """The facts of one predicate in the order of their objects: those of objects[g] begin at starts[g]."""

    rows: Ids  # into all facts
    subject: Ids
    object: Ids
    objects: Ids
    starts: Ids

    def __len__(self) -> int:
        return len(self.rows)


class SoftFacts:
    """The facts a search runs over; build once, search with any vectors."""

    def __init__(self, facts: FactIds, num_predicates: int) -> None:
        self.facts, self.num_predicates = facts, num_predicates
        self.subject, self.predicate, self.object = (np.ascontiguousarray(column) for column in facts.T)
        self.by_subject, self.by_predicate, self.by_object = (_Side.of(column) for column in facts.T)
        self.in_order = bool((np.diff(self.predicate) >= 0).all())  # facts of a predicate lie side by side

    @cached_property
    def of_predicate(self) -> tuple[PredicateFacts, ...]:
        return tuple(self._of(predicate) for predicate in range(self.num_predicates))

    def _of(self, predicate: int) -> PredicateFacts:
        rows = np.flatnonzero(self.predicate == predicate)
        side = _Side.of(self.object[rows])
        rows = rows[side.order]
        return PredicateFacts(rows, self.subject[rows], self.object[rows], side.symbols, side.starts)


def _masked(distances: Float[np.ndarray, "fact query"], own: Ids) -> Floats:
    """∞ for the fact that a query may not use."""
    masked = np.flatnonzero(own != NO_FACT)
    distances[own[masked], masked] = np.inf
    return distances


class SoftSearch:
    """Over one set of vectors. `costs` are squared distances of goal vectors to all predicates: [query, predicate].

    Facts come first and queries last: what one fact means to all queries lies side by side, and is copied at once.
    """

    def __init__(self, facts: SoftFacts, squared: Float[np.ndarray, "entity entity"], unification: str) -> None:
        self.facts, self.squared, self.join = facts, squared, JOINS[unification]

    def _near(self, entities: Ids, met: Ids) -> Float[np.ndarray, "fact query"]:
        """Squared distance of each query's entity to the one that each fact has."""
        return np.take(self.squared[:, entities], met, axis=0)

    def entities(self, subjects: Ids, objects: Ids, own: Ids) -> Float[np.ndarray, "fact query"]:
        """Squared distance of each pair of entities to those of every fact: what all vectors share."""
        near_subject, near_object = self._near(subjects, self.facts.subject), self._near(objects, self.facts.object)
        return _masked(self.join(near_subject, near_object, out=near_object), own)

    def nearest(self, entities: Float[np.ndarray, "fact query"]) -> Float[np.ndarray, "query predicate"]:
        """The same to the nearest fact of every predicate."""
        side = self.facts.by_predicate
        ordered = entities if self.facts.in_order else entities[side.order]
        best = np.full((self.facts.num_predicates, entities.shape[1]), np.inf, dtype=entities.dtype)
        best[side.symbols] = np.minimum.reduceat(ordered, side.starts, axis=0)
        return best.T

    def nearest_of(self, predicates: Ids, entities: Float[np.ndarray, "fact query"], queries: Ids) -> Ids:
        """The fact of a given predicate that is nearest to the entities of each of these queries."""
        side = self.facts.by_predicate
        group = np.searchsorted(side.symbols, predicates)
        ends = np.append(side.starts, len(side.order))
        found = np.empty(len(queries), dtype=np.int64)
        for index, (query, first, last) in enumerate(
            zip(queries.tolist(), ends[group].tolist(), ends[group + 1].tolist(), strict=True)
        ):
            rows = side.order[first:last]
            found[index] = rows[entities[rows, query].argmin()]
        return found

    def pair(self, costs: Floats, entities: Float[np.ndarray, "fact query"]) -> Float[np.ndarray, "fact query"]:
        """Squared distance of each atom to every fact, given that of its entities."""
        return np.asarray(self.join(self._of_facts(costs, self.facts.predicate), entities))

    def row(
        self, costs: Floats, entities: Ids, own: Ids, *, open_subject: bool = False
    ) -> Float[np.ndarray, "query entity"]:
        """Distance to the best fact for every entity in the open place."""
        nearest, symbols = self._open(costs, entities, own, open_subject=open_subject)
        return np.asarray(np.sqrt(self._to_open(nearest, self.squared[symbols])))

    def _open(
        self, costs: Floats, entities: Ids, own: Ids, *, open_subject: bool
    ) -> tuple[Float[np.ndarray, "query symbol"], Ids]:
        """Squared distance to the best fact that has just that entity in the open place, of those that facts have."""
        side = self.facts.by_subject if open_subject else self.facts.by_object
        fixed = (self.facts.object if open_subject else self.facts.subject)[side.order]
        near_fixed = self._near(entities, fixed)
        costs = self._of_facts(costs, self.facts.predicate[side.order])
        joined = _masked(self.join(costs, near_fixed, out=near_fixed), side.place[own])
        nearest = np.minimum.reduceat(joined, side.starts, axis=0)  # [open entity, query]
        return np.ascontiguousarray(nearest.T), side.symbols

    def meeting(
        self, costs: Float[np.ndarray, "query 2 predicate"], ends: tuple[Ids, Ids], own: Ids, flips: Flips, times: Join
    ) -> tuple[Float[np.ndarray, " query"], Ids]:
        """(distance, entity) where the two atoms of each query meet best on the way from one end to the other.

        Where facts of both have the very same entity, they meet at some distance; a fact that is further away alone
        has no part in anything better, and most are.
        """
        nearest = np.full((2, len(own), len(self.squared)), np.inf, dtype=costs.dtype)
        for place, open_subject in enumerate((flips[0], not flips[1])):
            found, symbols = self._open(costs[:, place], ends[place], own, open_subject=open_subject)
            nearest[place][:, symbols] = found
        limit = times(*np.sqrt(nearest)).min(1) ** 2 * (1 + ROUNDING)
        total = times(*(np.sqrt(self._to_open_within(one, limit)) for one in nearest))
        station = total.argmin(1)
        return total[np.arange(len(total)), station], station

    def _to_open_within(
        self, nearest: Float[np.ndarray, "query entity"], limit: Float[np.ndarray, " query"]
    ) -> Float[np.ndarray, "query entity"]:
        """`_to_open`, exact where it is within the limit and beyond the limit elsewhere."""
        query, entity = np.nonzero(self.join(nearest, self._to_another) <= limit[:, None])
        if 2 * len(query) > nearest.size or len(query) * nearest.shape[1] > MAX_JOINED:
            return self._to_open(nearest, self.squared)
        joined = self.join(nearest[query, entity][:, None], self.squared[entity])
        queries, starts = np.unique(query, return_index=True)
        best = nearest.copy()
        best[queries] = np.minimum(best[queries], np.minimum.reduceat(joined, starts, axis=0))
        return best

    @cached_property
    def _to_another(self) -> Float[np.ndarray, " entity"]:
        """Squared distance of every entity to the nearest other one."""
        others = self.squared.copy()
        np.fill_diagonal(others, np.inf)
        return np.asarray(others.min(1))

    def _of_facts(self, costs: Floats, predicates: Ids) -> Float[np.ndarray, "fact query"]:
        return np.take(np.ascontiguousarray(costs.T), predicates, axis=0)

    def _to_open(self, nearest: Floats, to_open: Float[np.ndarray, "open entity"]) -> Float[np.ndarray, "query entity"]:
        """min over the open place of nearest ∘ to_open, some queries at once."""
        best = np.empty((len(nearest), to_open.shape[1]), dtype=nearest.dtype)
        size = max(1, TOGETHER // to_open.size)
        for start in range(0, len(nearest), size):
            some = slice(start, start + size)
            self.join(nearest[some, :, None], to_open).min(1, out=best[some])
        return best

    def table(self, costs: Float[np.ndarray, " predicate"], own: int = NO_FACT) -> Float[np.ndarray, "entity entity"]:
        """`row` for every subject."""
        everyone = np.arange(len(self.squared))
        return self.row(
            np.broadcast_to(costs, (len(everyone), len(costs))), everyone, np.full(len(everyone), own, dtype=np.int64)
        )


def contract(left: Floats, right: Floats, semiring: str) -> Float[np.ndarray, "row column"]:
    """The matrix product of distances: min over the middle entity of left ⊗ right."""
    times = TIMES[semiring]
    best = np.full((left.shape[0], right.shape[1]), np.inf, dtype=left.dtype)
    joined = np.empty_like(best)
    for column, row in zip(left.T, right, strict=True):
        times(column[:, None], row[None, :], out=joined)
        np.minimum(best, joined, out=best)
    return best
