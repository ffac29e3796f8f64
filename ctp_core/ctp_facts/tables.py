"""Tables of distances for all pairs of entities, the same with one fact left out, and the facts behind the distances.

M_r[a, b] is the squared distance of the pair (a, b) to the nearest fact of r; an atom with vector v is then at
T₀(v)[a, b] = min over r of |v-r| ∘ M_r[a, b]. One step of training needs whole rows and columns of T₀, which cost far
less together than pair by pair.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from ctp_core.base.deadline import Expired, look, never
from ctp_core.ctp_facts.entities import JOINS, Floats, Ids, PredicateFacts, SoftFacts

CHUNK = 2048  # cells whose facts are looked up at once


class SoftTables:
    """Tables for one set of vectors; `squared` holds the squared distances between entities.

    Raises OutOfTime once `expired`: with many entities a table takes long.
    """

    def __init__(
        self,
        facts: SoftFacts,
        squared: Float[np.ndarray, "entity entity"],
        unification: str,
        expired: Expired = never,
    ) -> None:
        self.expired = expired
        self.facts, self.squared, self.join = facts, squared, JOINS[unification]
        self._left_out: dict[int, LeaveOneOut] = {}
        self._near_objects: dict[int, Floats] = {}

    @cached_property
    def nearest(self) -> Float[np.ndarray, "predicate entity entity"]:
        """M, with ∞ where a predicate has no fact."""
        tables = np.full((self.facts.num_predicates, *self.squared.shape), np.inf, dtype=self.squared.dtype)
        joined = np.empty_like(self.squared)
        for best, own in zip(tables, self.facts.of_predicate, strict=True):
            for column, object_ in zip(self.to_objects(own), own.objects, strict=True):
                look(self.expired)
                self.join(column[:, None], self.squared[object_][None, :], out=joined)
                np.minimum(best, joined, out=best)
        return tables

    def to_objects(self, own: PredicateFacts) -> Float[np.ndarray, "object entity"]:
        """For each object of a predicate, the squared distance of every entity to the object's nearest subject."""
        if not len(own):
            return self.squared[:0]
        return np.minimum.reduceat(self.squared[own.subject], own.starts, axis=0)

    def atoms(
        self, costs: Float[np.ndarray, "atom predicate"], without: int | None = None
    ) -> Float[np.ndarray, "atom entity entity"]:
        """Squared T₀ of every atom; ignores the facts of the predicate `without`."""
        best = np.full((len(costs), *self.squared.shape), np.inf, dtype=self.squared.dtype)
        joined = np.empty_like(best)
        for predicate, own in enumerate(self.facts.of_predicate):
            if len(own) and predicate != without:
                look(self.expired)
                self.join(costs[:, predicate, None, None], self.nearest[predicate], out=joined)
                np.minimum(best, joined, out=best)
        return best

    def leave_one_out(self, predicate: int) -> "LeaveOneOut":
        """M of a predicate with each of its facts left out; kept, because all goals of a predicate share it."""
        if predicate not in self._left_out:
            self._left_out[predicate] = LeaveOneOut.of(self, predicate)
        return self._left_out[predicate]

    def rows_of(
        self, costs: Float[np.ndarray, " predicate"], subjects: Ids, objects: Ids, own: "OwnCells | None" = None
    ) -> Int[np.ndarray, " cell"]:
        """The row of the fact nearest to each atom, never the cell's own fact."""
        distances = self.join(costs[:, None], self.nearest[:, subjects, objects])  # [predicate, cell]
        if own is not None:
            distances[own.predicate] = self.join(costs[own.predicate], own.distances(subjects, objects))
        chosen = distances.argmin(0)
        rows = np.empty(len(subjects), dtype=np.int64)
        for predicate in np.unique(chosen).tolist():
            cells = np.flatnonzero(chosen == predicate)
            if own is not None and own.predicate == predicate:
                rows[cells] = self._but(own.rows[cells], predicate, subjects[cells], objects[cells])
            else:
                for start in range(0, len(cells), CHUNK):
                    some = cells[start : start + CHUNK]
                    rows[some] = self._within(predicate, subjects[some], objects[some])
        return rows

    def _within(self, predicate: int, subjects: Ids, objects: Ids) -> Ids:
        """The row of the predicate's nearest fact for each pair: first finds its object, then the subject."""
        facts = self.facts.of_predicate[predicate]
        near = self.join(self._to_objects(predicate)[:, subjects], self.squared[facts.objects][:, objects])
        group = near.argmin(0)
        sizes = np.diff(np.append(facts.starts, len(facts)))[group]
        ends = np.cumsum(sizes)
        cell = np.repeat(np.arange(len(group)), sizes)
        fact = (
            np.arange(ends[-1]) - np.repeat(ends - sizes, sizes) + facts.starts[group][cell]
        )  # every fact with the chosen object
        near = self.squared[subjects[cell], facts.subject[fact]]
        nearest = np.minimum.reduceat(near, ends - sizes)
        first = np.flatnonzero(near == nearest[cell])[
            ::-1
        ]  # backwards, so that the first of equal facts is written last and stays
        rows = np.empty(len(group), dtype=np.int64)
        rows[cell[first]] = facts.rows[fact[first]]
        return rows

    def _but(self, masked: Ids, predicate: int, subjects: Ids, objects: Ids) -> Ids:
        """Like `_within`, but each pair may not use one fact, its row in `masked`."""
        facts = self.facts.of_predicate[predicate]
        near = self.join(self.squared[subjects][:, facts.subject], self.squared[objects][:, facts.object])
        near[facts.rows[None, :] == masked[:, None]] = np.inf
        return np.asarray(facts.rows[near.argmin(1)])

    def _to_objects(self, predicate: int) -> Float[np.ndarray, "object entity"]:
        if predicate not in self._near_objects:
            self._near_objects[predicate] = self.to_objects(self.facts.of_predicate[predicate])
        return self._near_objects[predicate]


@dataclass(frozen=True)
class LeaveOneOut:
    """M of one predicate with one of its facts left out, for each of its facts.

    Leaving out p(i, j) changes only distances through the object j. `through` is the object of the nearest fact,
    `second` the best distance through any other object, `others` the distance to the nearest other subject of j.
    """

    tables: SoftTables
    facts: PredicateFacts
    best: Float[np.ndarray, "entity entity"]
    through: Int[np.ndarray, "entity entity"]
    second: Float[np.ndarray, "entity entity"]
    others: Float[np.ndarray, "fact entity"]

    @classmethod
    def of(cls, tables: SoftTables, predicate: int) -> "LeaveOneOut":
        facts, squared = tables.facts.of_predicate[predicate], tables.squared
        best, second = (np.full(squared.shape, np.inf, dtype=squared.dtype) for _ in range(2))
        through = np.full(squared.shape, -1, dtype=np.int64)
        for column, object_ in zip(tables.to_objects(facts), facts.objects, strict=True):
            joined = tables.join(column[:, None], squared[object_][None, :])
            np.minimum(second, np.maximum(best, joined), out=second)
            through[joined < best] = object_
            np.minimum(best, joined, out=best)
        return cls(tables, facts, best, through, second, _other_subjects(facts, squared))

    def distances(self, fact: Ids, subjects: Ids, objects: Ids) -> Floats:
        """M[subject, object] without the fact, an index into `facts`; the three arrays broadcast."""
        left_out = self.facts.object[fact]
        elsewhere = np.where(
            self.through[subjects, objects] == left_out, self.second[subjects, objects], self.best[subjects, objects]
        )
        here = self.tables.join(self.others[fact, subjects], self.tables.squared[left_out, objects])
        return np.asarray(np.minimum(elsewhere, here))


@dataclass(frozen=True)
class OwnCells:
    """Goals of one predicate, each of which may not use its own fact."""

    predicate: int
    facts: LeaveOneOut
    fact: Ids  # [cell], indices into the facts of the predicate

    @property
    def rows(self) -> Ids:
        return self.facts.facts.rows[self.fact]

    def distances(self, subjects: Ids, objects: Ids) -> Floats:
        return self.facts.distances(self.fact, subjects, objects)


def _other_subjects(facts: PredicateFacts, squared: Floats) -> Float[np.ndarray, "fact entity"]:
    """For each fact p(i, j), the squared distance of every entity to the nearest subject of j other than i."""
    found = np.full((len(facts), len(squared)), np.inf, dtype=squared.dtype)
    ends = np.append(facts.starts, len(facts))[1:]
    for start, end in zip(facts.starts.tolist(), ends.tolist(), strict=True):
        near = squared[facts.subject[start:end]]  # [fact, entity]
        if len(near) > 1:
            order = np.argpartition(near, 1, axis=0)[:2]
            first, second = np.take_along_axis(near, order, axis=0)
            for fact in range(start, end):
                found[fact] = np.where(order[0] == fact - start, second, first)
    return found
