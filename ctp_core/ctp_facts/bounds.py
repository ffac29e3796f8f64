"""Exact search for the best fact of an atom, and for the entity where two atoms meet best.

Seen from one end of an atom, all facts with the same entity there and the same predicate are equally far, and the other
end only adds to the distance. So a whole group of facts beyond the best distance known can be skipped, and most are.
On a small KB the number of NumPy calls decides the time, so these are few and plain.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ctp_core.ctp_facts.entities import NO_FACT, ROUNDING, Flips, Floats, Ids, Join, SoftSearch, members


@dataclass(frozen=True)
class Atoms:
    """Atoms to match with facts. Each has a row of `costs`, and in `own` a fact that it may not use, or -1."""

    costs: Float[np.ndarray, "row predicate"]
    row: Int[np.ndarray, " atom"]
    subject: Int[np.ndarray, " atom"]
    object: Int[np.ndarray, " atom"]
    own: Int[np.ndarray, " atom"]

    @classmethod
    def joined(cls, parts: "Sequence[Atoms]") -> "Atoms":
        """Concatenates the atoms of all parts."""
        rows = np.cumsum([0] + [len(one.costs) for one in parts])
        row = [one.row + before for one, before in zip(parts, rows[:-1], strict=True)]
        columns = ([getattr(one, name) for one in parts] for name in ("subject", "object", "own"))
        return cls(np.concatenate([one.costs for one in parts]), *map(np.concatenate, (row, *columns)))


class Reached(NamedTuple):
    """Facts reached from one end of some atoms. `squared` counts that end and the predicate, not the other end."""

    atom: Ids
    fact: Ids
    other: Ids  # the entity at the fact's other end
    squared: Floats


class End:
    """Atoms seen from one end. `bounds` is the squared distance to the nearest fact with that entity there."""

    def __init__(self, search: SoftSearch, atoms: Atoms, *, by_object: bool) -> None:
        self.search, self.costs, self.row = search, atoms.costs, atoms.row
        self.groups = search.groups(by_object=by_object)
        self.entity = atoms.object if by_object else atoms.subject
        self.own = self.groups.place[atoms.own]
        costs = atoms.costs[:, None] + self.groups.absent  # [row, entity, predicate]
        self._cheapest = costs.argmin(2)
        least = _in_columns(costs.reshape(-1, costs.shape[2]), self._cheapest.ravel()).reshape(self._cheapest.shape)
        self._bound(search.join(least.take(self.row, axis=0), search.squared.take(self.entity, axis=0)))

    def _bound(self, bounds: Float[np.ndarray, "atom entity"]) -> None:
        self.bounds, self._nearest = bounds, bounds.argmin(1)
        self.least = _in_columns(bounds, self._nearest)

    def some(self, atoms: Ids) -> "End":
        """This end, restricted to some of its atoms."""
        chosen = copy(self)
        chosen.row, chosen.entity, chosen.own = self.row[atoms], self.entity[atoms], self.own[atoms]
        chosen._bound(self.bounds[atoms])
        return chosen

    def nearest(self, limit: Float[np.ndarray, " atom"]) -> Reached:
        """The facts of the nearest group of each atom, for atoms whose nearest group is within the limit."""
        atom = (self.least < limit).nonzero()[0]
        entity = self._nearest[atom]
        return self._facts(atom, self.groups.group[entity, self._cheapest[self.row[atom], entity]], self.least[atom])

    def within(self, limit: Float[np.ndarray, " atom"]) -> Reached:
        """All facts within the limit, counted from this end."""
        atom, entity = np.divmod((self.bounds < limit[:, None]).ravel().nonzero()[0], self.bounds.shape[1])
        index, group = members(self.groups.first_group, entity)
        atom, entity = atom[index], entity[index]
        costs = self.costs.ravel().take(self.row[atom] * self.costs.shape[1] + self.groups.predicates[group])
        squared = self.search.join(costs, self.search.between(self.entity[atom], entity))
        kept = (squared < limit[atom]).nonzero()[0]
        return self._facts(atom[kept], group[kept], squared[kept])

    def _facts(self, atom: Ids, group: Ids, squared: Floats) -> Reached:
        index, place = members(self.groups.first_fact, group)
        atom, squared = atom[index], squared[index]
        squared[place == self.own[atom]] = np.inf
        return Reached(atom, self.groups.facts[place], self.groups.others[place], squared)

    def opened(self, reached: Reached) -> Float[np.ndarray, "atom entity"]:
        """Squared distance to the best of these facts that has exactly that entity at its other end."""
        best = np.full_like(self.bounds, np.inf)
        np.minimum.at(best.reshape(-1), reached.atom * best.shape[1] + reached.other, reached.squared)
        return best


def _in_columns(table: Float[np.ndarray, "row column"], column: Ids) -> Float[np.ndarray, " row"]:
    """Reads one column of each row."""
    return np.asarray(table.ravel().take(column + np.arange(len(column)) * table.shape[1]))


class Nearest:
    """The best fact found so far for each atom; facts beyond the limit, a squared distance, are ignored."""

    def __init__(self, search: SoftSearch, limit: Float[np.ndarray, " atom"]) -> None:
        self.search, self.squared = search, limit.copy()
        self.fact = np.full(len(limit), NO_FACT, dtype=np.int64)

    def offer(self, reached: Reached, other: Int[np.ndarray, " atom"]) -> None:
        """Takes facts reached from one end that improve on the best; `other` is the entity at each atom's other end."""
        squared = self.search.join(reached.squared, self.search.between(other[reached.atom], reached.other))
        better = (squared < self.squared[reached.atom]).nonzero()[0]
        atom, squared = reached.atom[better], squared[better]
        np.minimum.at(self.squared, atom, squared)
        best = (squared == self.squared[atom]).nonzero()[0]
        self.fact[atom[best]] = reached.fact[better[best]]


def _between(search: SoftSearch, atoms: Atoms) -> Reached:
    """Facts between exactly the two entities of an atom, whatever their predicate."""
    facts = search.facts
    order, starts = facts.pairs(len(search.squared))
    atom, place = members(starts, atoms.subject * len(search.squared) + atoms.object)
    fact = order[place]
    squared = atoms.costs.ravel().take(atoms.row[atom] * atoms.costs.shape[1] + facts.predicate[fact])
    squared[fact == atoms.own[atom]] = np.inf
    return Reached(atom, fact, facts.object[fact], squared)


def nearest_facts(search: SoftSearch, atoms: Atoms, limit: Floats, *, rivals: int = 1) -> Nearest:
    """The best fact of each atom, if it is below the limit.

    Atoms lie as [rival, column] in `rivals` rows. Only the best rival of each column need be exact, so the best
    distance in a column bounds the search for all of it.
    """
    nearest = Nearest(search, limit)
    subjects, objects = (End(search, atoms, by_object=by_object) for by_object in (False, True))
    nearest.offer(subjects.nearest(nearest.squared), atoms.object)
    nearest.offer(objects.nearest(nearest.squared), atoms.subject)
    nearest.offer(_between(search, atoms), atoms.object)
    bound = np.tile(nearest.squared.reshape(rivals, -1).min(0), rivals)
    nearest.offer(subjects.within(bound), atoms.object)
    return nearest


class Meeting(NamedTuple):
    """How the two atoms of each query meet: at which distance (∞ beyond the limit), in which entity, by which facts."""

    distance: Float[np.ndarray, " query"]
    station: Int[np.ndarray, " query"]
    facts: Int[np.ndarray, "2 query"]


def meeting(search: SoftSearch, atoms: tuple[Atoms, Atoms], flips: Flips, times: Join, limit: Floats) -> Meeting:
    """Finds the entity in the middle where two atoms of a path meet best."""
    ends = [End(search, atoms[0], by_object=flips[0]), End(search, atoms[1], by_object=not flips[1])]
    near = (times(*(np.sqrt(end.least) for end in ends)) < limit).nonzero()[0]
    none = np.full((3, len(limit)), NO_FACT)
    found = Meeting(np.full_like(limit, np.inf), none[0], none[1:])
    if len(near):
        some = [end.some(near) for end in ends]
        found.distance[near], found.station[near], found.facts[:, near] = _met(search, some, times, limit[near])
    return found


def _met(search: SoftSearch, ends: list[End], times: Join, limit: Floats) -> Meeting:
    if not limit.max() < np.inf:  # a finite limit bounds the search as well as this first look would
        opened = [end.opened(end.nearest(limit**2)) for end in ends]
        limit = np.minimum(limit, _some_meeting(search, opened, times))
    reached = [end.within(limit**2 * (1 + ROUNDING)) for end in ends]
    opened = [end.opened(facts) for end, facts in zip(ends, reached, strict=True)]
    limit = np.minimum(limit, _some_meeting(search, opened, times))
    total = times(*(np.sqrt(search.to_open_within(one, limit**2 * (1 + ROUNDING))) for one in opened))
    station = total.argmin(1)
    nearest = [Nearest(search, np.full_like(limit, np.inf)) for _ in ends]
    for one, facts in zip(nearest, reached, strict=True):
        one.offer(facts, station)
    return Meeting(_in_columns(total, station), station, np.stack([one.fact for one in nearest]))


def _some_meeting(search: SoftSearch, opened: list[Floats], times: Join) -> Float[np.ndarray, " query"]:
    """An upper bound of the distance at which two atoms meet: in the same entity, or where one of them is best."""
    found = times(*(np.sqrt(one) for one in opened)).min(1)
    for here, there in (opened, opened[::-1]):
        gap = search.join(there, search.squared.take(here.argmin(1), axis=0)).min(1)
        np.minimum(found, times(np.sqrt(here.min(1)), np.sqrt(gap)), out=found)
    return np.asarray(found)
