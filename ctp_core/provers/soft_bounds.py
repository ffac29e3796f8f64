"""The best fact of an atom, and where two atoms meet best: exactly, by looking only at what can beat the best known.

From one end of an atom all facts with the same entity there and the same predicate are equally far, and what lies at
the other end only adds to that: a group of facts beyond the best distance known is left out whole, and most are.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ctp_core.provers.fact_groups import FactGroups, members, smallest_at
from ctp_core.provers.soft_entities import NO_FACT, ROUNDING, Flips, Floats, Ids, Join, SoftSearch


@dataclass(frozen=True)
class Atoms:
    """Atoms to be met by facts: each has a row of `costs`, and a fact that it may not use, or -1."""

    costs: Float[np.ndarray, "row predicate"]
    row: Int[np.ndarray, " atom"]
    subject: Int[np.ndarray, " atom"]
    object: Int[np.ndarray, " atom"]
    own: Int[np.ndarray, " atom"]


class Reached(NamedTuple):
    """Facts reached from one end of some atoms, at the squared distance of that end and the predicates."""

    atom: Ids
    fact: Ids
    other: Ids  # the entity at the fact's other end
    squared: Floats


@dataclass(frozen=True)
class End:
    """Atoms seen from one end. `bounds` are squared distances to the nearest fact that has some entity there."""

    search: SoftSearch
    groups: FactGroups
    costs: Float[np.ndarray, "row predicate"]
    row: Int[np.ndarray, " atom"]
    entity: Int[np.ndarray, " atom"]
    own: Int[np.ndarray, " atom"]
    bounds: Float[np.ndarray, "atom entity"]
    cheapest: Int[np.ndarray, "row entity"]  # the group of facts behind a bound

    @classmethod
    def of(cls, search: SoftSearch, atoms: Atoms, *, by_object: bool) -> "End":
        groups = search.facts.by_object if by_object else search.facts.by_subject
        entity = atoms.object if by_object else atoms.subject
        least, cheapest = groups.least(atoms.costs, len(search.squared))
        bounds = search.join(least.take(atoms.row, axis=0), search.squared.take(entity, axis=0))
        return cls(search, groups, atoms.costs, atoms.row, entity, atoms.own, bounds, cheapest)

    def some(self, atoms: Ids) -> "End":
        chosen = {name: getattr(self, name)[atoms] for name in ("row", "entity", "own", "bounds")}
        return replace(self, **chosen)

    @cached_property
    def least(self) -> Float[np.ndarray, " atom"]:
        return np.asarray(self.bounds.min(1))

    def nearest(self, limit: Float[np.ndarray, " atom"]) -> Reached:
        """The facts of one nearest group of each atom that has any within the limit."""
        atom = np.flatnonzero(self.least < limit)
        group = self.cheapest[self.row[atom], self.bounds.argmin(1)[atom]]
        return self._facts(atom, group, self.least[atom])

    def within(self, limit: Float[np.ndarray, " atom"]) -> Reached:
        """All facts that are within the limit from this end."""
        atom, entity = np.divmod(np.flatnonzero(self.bounds < limit[:, None]), self.bounds.shape[1])
        index, group = members(self.groups.first_group, entity)
        atom, entity = atom[index], entity[index]
        costs = self.costs.ravel().take(self.row[atom] * self.costs.shape[1] + self.groups.predicates[group])
        squared = self.search.join(costs, self.search.between(self.entity[atom], entity))
        kept = np.flatnonzero(squared < limit[atom])
        return self._facts(atom[kept], group[kept], squared[kept])

    def _facts(self, atom: Ids, group: Ids, squared: Floats) -> Reached:
        index, place = members(self.groups.first_fact, group)
        atom, fact = atom[index], self.groups.facts[place]
        kept = np.flatnonzero(fact != self.own[atom])
        return Reached(atom[kept], fact[kept], self.groups.others[place[kept]], squared[index[kept]])


def nearest_facts(search: SoftSearch, atoms: Atoms, limit: Floats) -> tuple[Float[np.ndarray, " atom"], Ids]:
    """(squared distance, fact) of the best fact of each atom; the limit and NO_FACT where none is below the limit."""
    best, fact = limit.copy(), np.full(len(limit), NO_FACT, dtype=np.int64)

    def close(reached: Reached, other: Ids) -> None:
        squared = search.join(reached.squared, search.between(other[reached.atom], reached.other))
        better = np.flatnonzero(squared < best[reached.atom])
        atom, squared = reached.atom[better], squared[better]
        np.minimum.at(best, atom, squared)
        first = np.flatnonzero(squared == best[atom])
        fact[atom[first]] = reached.fact[better[first]]

    subjects, objects = (End.of(search, atoms, by_object=by_object) for by_object in (False, True))
    close(subjects.nearest(best), atoms.object)
    close(objects.nearest(best), atoms.subject)
    close(subjects.within(best), atoms.object)
    return best, fact


def meeting(
    search: SoftSearch, atoms: tuple[Atoms, Atoms], flips: Flips, times: Join, limit: Floats
) -> tuple[Float[np.ndarray, " atom"], Ids]:
    """(distance, entity) where two atoms meet best on the way from one end to the other, ∞ beyond the limit."""
    ends = [End.of(search, atoms[0], by_object=flips[0]), End.of(search, atoms[1], by_object=not flips[1])]
    total, station = np.full_like(limit, np.inf), np.zeros(len(limit), dtype=np.int64)
    near = np.flatnonzero(times(*(np.sqrt(end.least) for end in ends)) < limit)
    if len(near):
        total[near], station[near] = _met([end.some(near) for end in ends], times, limit[near])
    return total, station


def _met(ends: list[End], times: Join, limit: Floats) -> tuple[Float[np.ndarray, " atom"], Ids]:
    search = ends[0].search
    opened = [_opened(end, end.nearest(limit**2)) for end in ends]
    limit = np.minimum(limit, _some_meeting(search, opened, times))
    opened = [_opened(end, end.within(limit**2 * (1 + ROUNDING))) for end in ends]
    limit = np.minimum(limit, _some_meeting(search, opened, times))
    total = times(*(np.sqrt(search.to_open_within(one, limit**2 * (1 + ROUNDING))) for one in opened))
    station = total.argmin(1)
    return total[np.arange(len(total)), station], station


def _opened(end: End, reached: Reached) -> Float[np.ndarray, "atom entity"]:
    """Squared distance to the best of these facts that has just that entity at its other end."""
    num_entities = end.bounds.shape[1]
    return smallest_at(reached.squared, reached.atom * num_entities + reached.other, end.bounds.shape)


def _some_meeting(search: SoftSearch, opened: list[Floats], times: Join) -> Float[np.ndarray, " atom"]:
    """A distance at which two atoms meet for sure: in the same entity, or where one of them is best."""
    found = [times(*(np.sqrt(one) for one in opened)).min(1)]
    for here, there in (opened, opened[::-1]):
        gap = search.join(there, search.squared.take(here.argmin(1), axis=0)).min(1)
        found.append(times(np.sqrt(here.min(1)), np.sqrt(gap)))
    return np.min(found, axis=0)
