"""Rules that would prove a fact if one more fact were stated."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ctp_core.base.edges import EdgeList
from ctp_core.base.facts_model import FactsView
from ctp_core.rules import Rule, Step
from ctp_core.symbols import Fact

MAX_RULES = 200  # looked at, those that explain most first
EACH_RULE = 3  # near misses of one rule
Ids = NDArray[np.int64]


class NearMiss(NamedTuple):
    """A rule, the facts of its body that are stated, the one that is missing, and the score if it were stated."""

    rule: Rule
    stated: tuple[Fact, ...]
    missing: Fact
    score_then: float = 0.0


def near_misses(view: FactsView, rules: Sequence[Rule], fact: tuple[int, int, int]) -> Iterator[NearMiss]:
    """The near misses of each rule, in the order of the rules; priors say nothing of a pair and are left out."""
    looked_at = [rule for rule in rules if not rule.prior and _about(view, rule, fact)]
    for rule in looked_at[:MAX_RULES]:
        path = _path(view, rule, fact)
        if path is not None:
            yield from _misses(view, rule, *path, fact)


def _about(view: FactsView, rule: Rule, fact: tuple[int, int, int]) -> bool:
    """Whether a rule with a constant in its head is about this fact."""
    if rule.constant is None:
        return True
    other = fact[2] if rule.body.about == "X" else fact[0]
    return view.entities.names[other] == rule.constant


def _path(view: FactsView, rule: Rule, fact: tuple[int, int, int]) -> tuple[list[int], int, int | None] | None:
    """(atoms, start, end) of the body; no end where it may lead to anything. None where a name is unknown."""
    body = rule.body
    if any(step.predicate not in view.predicates for step in body.steps):
        return None
    start = fact[2] if body.about == "Y" else fact[0]
    if body.end is not None and body.end not in view.entities:
        return None
    end = fact[2] if not body.about else None if body.end is None else view.entities.id(body.end)
    return [_atom(view, step) for step in body.steps], start, end


def _atom(view: FactsView, step: Step) -> int:
    number = view.predicates.id(step.predicate)
    return number + len(view.predicates) if step.inverse else number


def _misses(
    view: FactsView, rule: Rule, atoms: list[int], start: int, end: int | None, fact: tuple[int, int, int]
) -> Iterator[NearMiss]:
    """Each atom in turn is the missing one, between what the others reach from either end."""
    own, found = view.fact(*fact), set[Fact]()
    for stations, place in _Walks(view.edges, atoms, start, end).with_a_gap():
        facts = rule.body.facts([view.entities.names[entity] for entity in stations])
        if own not in facts and facts[place] not in found:
            found.add(facts[place])
            yield NearMiss(rule, tuple(one for at, one in enumerate(facts) if at != place), facts[place])
        if len(found) >= EACH_RULE:
            return


class _Walks:
    """What the atoms of a body reach from its start, and from what they reach its end."""

    def __init__(self, edges: EdgeList, atoms: Sequence[int], start: int, end: int | None) -> None:
        self._edges, self._atoms = edges, atoms
        self._from: list[Ids] = [np.array([start])]
        for atom in atoms:
            self._from.append(self._step(self._from[-1], atom))
        anywhere = np.flatnonzero(edges.degrees_by(self._turned(atoms[-1])))
        self._towards: list[Ids] = [np.array([end]) if end is not None else anywhere]
        for atom in reversed(atoms):
            self._towards.insert(0, self._step(self._towards[0], self._turned(atom)))

    def with_a_gap(self) -> Iterator[tuple[list[int], int]]:
        """Stations along which exactly one atom is not stated, and its place."""
        for place, atom in enumerate(self._atoms):
            for left in self._from[place][:EACH_RULE].tolist():
                known = set(self._edges.neighbours(left, atom).tolist())
                rights = (right for right in self._towards[place + 1].tolist() if right not in known)
                for right in islice(rights, EACH_RULE):
                    yield [*self._back(left, place), *self._on(right, place + 1)], place

    def _back(self, entity: int, place: int) -> list[int]:
        """One way from the start to an entity after so many atoms."""
        stations = [entity]
        for at in range(place - 1, -1, -1):
            before = self._edges.neighbours(stations[0], self._turned(self._atoms[at]))
            stations.insert(0, int(before[np.isin(before, self._from[at])][0]))
        return stations

    def _on(self, entity: int, place: int) -> list[int]:
        """One way from an entity before the atom at `place` to the end."""
        stations = [entity]
        for at in range(place, len(self._atoms)):
            after = self._edges.neighbours(stations[-1], self._atoms[at])
            stations.append(int(after[np.isin(after, self._towards[at + 1])][0]))
        return stations

    def _step(self, entities: Ids, atom: int) -> Ids:
        which, edge = self._edges.of_entities(entities)
        del which
        return np.unique(self._edges.head[edge][self._edges.atom[edge] == atom])

    def _turned(self, atom: int) -> int:
        return (atom + self._edges.num_predicates) % (2 * self._edges.num_predicates)
