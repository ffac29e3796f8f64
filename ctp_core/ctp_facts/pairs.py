"""The best proofs of all pairs of entities for one goal predicate at once; rankings are learnt from them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ctp_core.ctp_facts.entities import Floats, Ids, Join, contract
from ctp_core.ctp_facts.search import Chains, Leaves
from ctp_core.ctp_facts.tables import OwnCells, SoftTables

CHUNK = 4096  # cells traced at once


@dataclass(frozen=True)
class Chain:
    """One chain of rules for one goal predicate."""

    chains: Chains
    row: int
    number: int

    @property
    def costs(self) -> Float[np.ndarray, "place known"]:
        return np.asarray(self.chains.costs[self.row, self.number])

    @property
    def guard(self) -> float | None:
        guards = self.chains.guards
        return None if guards is None else float(guards[self.row, self.number].detach())


class ChainPairs:
    """One chain over all pairs of entities; and over the facts of its goal predicate, each as if it were not stated.

    `steps[l]` is the distance of a step from one entity to another at place l, `without[l]` the same without facts of
    the goal predicate. `reached[l]` is the distance from a subject to each entity after l + 1 steps.
    """

    def __init__(self, tables: SoftTables, chain: Chain, times: Join, predicate: int | None = None) -> None:
        self.tables, self.chain, self.predicate = tables, chain, predicate
        self.flips, self.times = chain.chains.plan.flips, times
        dtype = tables.squared.dtype
        self.costs = chain.costs.astype(dtype)
        squared = tables.atoms(self.costs, without=predicate)
        self.without = self._oriented(squared)
        if predicate is not None:
            own = tables.join(self.costs[:, predicate, None, None], tables.nearest[predicate])
            squared = np.minimum(squared, own)
        self.steps = self._oriented(squared)
        self.reached = [self.steps[0]]
        for step in self.steps[1:]:
            self.reached.append(contract(self.reached[-1], step, times, tables.expired))

    def _oriented(self, squared: Floats) -> list[Floats]:
        return [np.sqrt(table.T if flip else table) for table, flip in zip(squared, self.flips, strict=True)]

    def _guarded(self, distances: Floats) -> Floats:
        guard = self.chain.guard
        return distances if guard is None else self.times(distances, distances.dtype.type(guard))

    @property
    def distances(self) -> Float[np.ndarray, "subject object"]:
        return self._guarded(self.reached[-1])

    def trace(self, subjects: Ids, objects: Ids) -> Leaves:
        """The best proof of each pair."""
        stations = [objects]
        for place in range(len(self.flips) - 1, 0, -1):
            stations.append(self._before(place, subjects, stations[-1]))
        return self._leaves([subjects, *reversed(stations)], None)

    def _before(self, place: int, subjects: Ids, ends: Ids) -> Ids:
        """The entity of each path before this place."""
        found = []
        for start in range(0, len(ends), CHUNK):
            some = slice(start, start + CHUNK)
            joined = self.times(self.reached[place - 1][subjects[some]], self.steps[place][:, ends[some]].T)
            found.append(joined.argmin(1))
        return np.concatenate(found)

    def _leaves(self, stations: list[Ids], own: OwnCells | None) -> Leaves:
        facts = []
        for place, flip in enumerate(self.flips):
            ends = (stations[place + 1], stations[place]) if flip else (stations[place], stations[place + 1])
            facts.append(self.tables.rows_of(self.costs[place], *ends, own))
        size = len(stations[0])
        row, number = np.full(size, self.chain.row), np.full(size, self.chain.number)
        return Leaves(row, number, np.stack(stations, axis=1), np.stack(facts, axis=1))

    # Without the goal's own fact

    def own(self) -> tuple[Float[np.ndarray, " fact"], Int[np.ndarray, "fact place+1"]]:
        """(distance, stations) of the best proof of each fact of the goal predicate without the fact itself."""
        assert self.predicate is not None
        facts = self.tables.leave_one_out(self.predicate)
        left, right = facts.facts.subject, facts.facts.object
        everyone, number = np.arange(len(self.tables.squared))[None, :], np.arange(len(left))
        if len(self.flips) == 1:
            cell = self._without_own(0, number, left, right)
            return self._guarded(cell), np.stack([left, right], axis=1)
        reached, back = self._without_own(0, number[:, None], left[:, None], everyone), []
        for place in range(1, len(self.flips) - 1):
            reached, pointers = self._push(place, reached)
            back.append(pointers)
        total = self.times(reached, self._without_own(len(self.flips) - 1, number[:, None], everyone, right[:, None]))
        path = [right, total.argmin(1)]
        for pointers in reversed(back):
            path.append(pointers[number, path[-1]])
        return self._guarded(total[number, path[1]]), np.stack([left, *reversed(path)], axis=1)

    def _push(self, place: int, reached: Float[np.ndarray, "fact entity"]) -> tuple[Floats, Ids]:
        """Moves on by one place, fact by fact, because each fact has its own table without itself."""
        everyone = np.arange(reached.shape[1])
        onward, pointers = np.empty_like(reached), np.empty(reached.shape, dtype=np.int64)
        for fact, distances in enumerate(reached):
            step = self._without_own(place, np.array([[fact]]), everyone[:, None], everyone[None, :])
            joined = self.times(distances[:, None], step)
            pointers[fact] = joined.argmin(0)
            onward[fact] = joined[pointers[fact], everyone]
        return onward, pointers

    def _without_own(self, place: int, fact: Ids, start: Ids, end: Ids) -> Floats:
        """Distance of the step from start to end at a place, without using `fact`; the three arrays broadcast."""
        assert self.predicate is not None
        subjects, objects = (end, start) if self.flips[place] else (start, end)
        own = self.tables.leave_one_out(self.predicate).distances(fact, subjects, objects)
        met = np.sqrt(self.tables.join(self.costs[place, self.predicate], own))
        return np.asarray(np.minimum(self.without[place][start, end], met))

    def trace_own(self, facts: Ids, stations: Int[np.ndarray, "fact place+1"]) -> Leaves:
        """The unifications behind the proofs that `own` found."""
        assert self.predicate is not None
        own = OwnCells(self.predicate, self.tables.leave_one_out(self.predicate), facts)
        return self._leaves(list(stations[facts].T), own)
