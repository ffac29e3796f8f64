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
Join = Callable[..., Floats]  # numpy's binary functions, which take `out`
JOINS: dict[str, Join] = {"concat": np.add, "per_symbol": np.maximum}
TIMES: dict[str, Join] = {"max-min": np.maximum, "max-product": np.add}
NO_FACT = -1


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


def _masked(distances: Floats, own: Ids) -> Floats:
    """∞ for the fact that a query may not use."""
    masked = np.flatnonzero(own != NO_FACT)
    distances[masked, own[masked]] = np.inf
    return distances


class SoftSearch:
    """Over one set of vectors. `costs` are squared distances of goal vectors to all predicates: [query, predicate]."""

    def __init__(self, facts: SoftFacts, squared: Float[np.ndarray, "entity entity"], unification: str) -> None:
        self.facts, self.squared, self.join = facts, squared, JOINS[unification]

    def entities(self, subjects: Ids, objects: Ids, own: Ids) -> Float[np.ndarray, "query fact"]:
        """Squared distance of each pair of entities to those of every fact: what all vectors share."""
        near_subject = np.take(self.squared[subjects], self.facts.subject, axis=1)
        near_object = np.take(self.squared[objects], self.facts.object, axis=1)
        return _masked(self.join(near_subject, near_object, out=near_object), own)

    def nearest(self, entities: Float[np.ndarray, "query fact"]) -> Float[np.ndarray, "query predicate"]:
        """The same to the nearest fact of every predicate."""
        side = self.facts.by_predicate
        ordered = entities if self.facts.in_order else entities[:, side.order]
        best = np.full((len(entities), self.facts.num_predicates), np.inf, dtype=entities.dtype)
        best[:, side.symbols] = np.minimum.reduceat(ordered, side.starts, axis=1)
        return best

    def pair(self, costs: Floats, entities: Float[np.ndarray, "query fact"]) -> Float[np.ndarray, "query fact"]:
        """Squared distance of each atom to every fact, given that of its entities."""
        return np.asarray(self.join(np.take(costs, self.facts.predicate, axis=1), entities))

    def row(
        self, costs: Floats, entities: Ids, own: Ids, *, open_subject: bool = False
    ) -> Float[np.ndarray, "query entity"]:
        """Distance to the best fact for every entity in the open place."""
        side = self.facts.by_subject if open_subject else self.facts.by_object
        fixed = (self.facts.object if open_subject else self.facts.subject)[side.order]
        near_fixed = np.take(self.squared[entities], fixed, axis=1)
        costs = np.take(costs, self.facts.predicate[side.order], axis=1)
        joined = _masked(self.join(costs, near_fixed, out=near_fixed), side.place[own])
        nearest = np.minimum.reduceat(joined, side.starts, axis=1)  # [query, open entity]
        to_open = self.squared[side.symbols]  # [open entity, entity]
        return np.asarray(np.sqrt([self.join(one[:, None], to_open).min(0) for one in nearest]))

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
