"""Reads the proofs of the tabled prover back from its tables, as from a chart parse."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ctp_core.ctp_graphs.search import PRECISION, Move, Space, rounded
from ctp_core.ctp_graphs.stepped_charts import SteppedChart
from ctp_core.ctp_graphs.tabled import TabledTheory, Tables
from ctp_core.rules import Template
from ctp_core.tnorm.base import TNorm

Scores = NDArray[np.float64]

ENDLESS = 1_000_000  # the size of a proof that repeats its goal: larger than any other
WIDER = 4  # factor by which the list of moves of a goal grows when it was too short


class TabledGoal(NamedTuple):
    """A pair (row of the chart) and a predicate; `level` is the remaining depth, −1 at the fixpoint."""

    row: int
    predicate: int
    level: int
    root: bool = False


class ByFact(NamedTuple):
    """Proved by the fact of this predicate between the same two entities."""

    predicate: int


class ByRule(NamedTuple):
    """Proved by a rule whose body unified with `body`; `generated` are the nearest predicates, and how near."""

    template: Template
    body: tuple[int, ...]
    guarded: bool
    generated: tuple[tuple[int, float], ...]


@dataclass
class _Listing:
    """The moves of a goal listed so far, best first."""

    width: int
    moves: list[Move] = field(default_factory=list)
    listed: set[tuple[Any, ...]] = field(default_factory=set)
    complete: bool = False

    def extend(self, found: Iterable[Move]) -> None:
        """Adds the moves not listed yet: a wider search may order equal moves differently."""
        for move in sorted(found, key=lambda move: (-rounded(move.value), move.rank))[: self.width]:
            key = (move.scores, move.subgoals, move.note)
            if key not in self.listed:
                self.listed.add(key)
                self.moves.append(move)


class _Choices(NamedTuple):
    """For one goal and the rules of one template: the ways, U of every place, and the gates."""

    template: Template
    parts: NDArray[np.int64]  # [way, atom]
    places: list[Scores]  # of each atom [reformulator, predicate]
    guard: Scores | None  # [reformulator]


class _Bodies(NamedTuple):
    """Unfinished bodies as [way, reformulator, combination]: ⊗ so far, their age, the predicate at each place."""

    totals: Scores
    ages: NDArray[np.int64]
    predicates: list[NDArray[np.int64]]

    def joined(self, totals: Scores, ages: NDArray[np.int64], predicates: NDArray[np.int64]) -> "_Bodies":
        """Adds a place: `totals` is [way, reformulator, combination, predicate], the others lack `combination`."""
        flat = (*totals.shape[:2], -1)
        older = np.maximum(self.ages[..., :, None], ages[:, :, None, :])
        every = [np.broadcast_to(before[..., :, None], totals.shape) for before in self.predicates]
        every.append(np.broadcast_to(predicates[:, :, None, :], totals.shape))
        return _Bodies(totals.reshape(flat), older.reshape(flat), [place.reshape(flat) for place in every])

    def at(self, chosen: NDArray[np.int64]) -> "_Bodies":
        predicates = [np.take_along_axis(place, chosen, axis=2) for place in self.predicates]
        totals, ages = np.take_along_axis(self.totals, chosen, axis=2), np.take_along_axis(self.ages, chosen, axis=2)
        return _Bodies(totals, ages, predicates)


class TabledSpace(Space):
    """The proofs of one graph, at the fixpoint only or at every depth, as the tables have kept it."""

    def __init__(self, chart: SteppedChart, theory: TabledTheory, tables: Tables, tnorm: TNorm, width: int) -> None:
        self.chart, self.theory, self.tnorm = chart, theory, tnorm
        self.width = width  # moves of a goal listed at first; few are ever needed
        self.cyclic = chart.cyclic or chart.levels  # the same goal may occur again at another depth
        self.facts = tables.facts.cpu().numpy()
        self.values, self.since = tables.levels.values.cpu().numpy(), tables.levels.since.cpu().numpy()
        self.at = [rows.cpu().numpy() for rows in tables.levels.at]
        self._listings: dict[TabledGoal, _Listing] = {}
        self._sizes: dict[TabledGoal, int] = {}

    def identity(self, goal: TabledGoal) -> tuple[int, int]:
        return goal.row, goal.predicate

    def best(self, goal: TabledGoal) -> float:
        proved = float(self.values[self._rows(goal.level)[goal.row], goal.predicate])
        return max(proved, self._by_any_fact(goal)) if goal.root else proved

    def move(self, goal: TabledGoal, index: int) -> Move | None:
        listing = self._listings.setdefault(goal, _Listing(self.width))
        while index >= len(listing.moves) and not listing.complete:
            self._widen(goal, listing)
        return listing.moves[index] if index < len(listing.moves) else None

    def _rows(self, level: int) -> NDArray[np.int64]:
        """Where the table of a level lies; above the last one there are more proofs, but no better ones."""
        return self.at[min(level, len(self.at) - 1)]

    @staticmethod
    def _below(goal: TabledGoal) -> int:
        """The level of the sub-goals of a rule for this goal."""
        return goal.level - 1 if goal.level > 0 else goal.level

    def size(self, goal: TabledGoal) -> int:
        if not self.cyclic:
            return 0
        if goal not in self._sizes:
            self._sizes[goal] = ENDLESS  # until it is known, for goals below that lead back to it
            best = self.move(goal, 0)
            self._sizes[goal] = 1 + sum(map(self.size, best.subgoals)) if best is not None else ENDLESS
        return self._sizes[goal]

    def _widen(self, goal: TabledGoal, listing: _Listing) -> None:
        """Lists more moves. No group of rules and no body place needs more alternatives than all moves wanted."""
        if listing.moves:
            listing.width *= WIDER
        found = [*self._facts(goal), *self._rules(goal, listing.width)]
        listing.complete = len(found) < listing.width
        listing.extend(found)

    @cached_property
    def _goal_meets(self) -> Scores | None:
        goals = self.theory.goals
        return None if goals is None else goals.double().cpu().numpy()

    @cached_property
    def _places(self) -> list[list[Scores]]:
        """U for each group of rules and each place, as [predicate r, reformulator, predicate r′]."""
        count = self.theory.num_predicates
        return [
            [place.double().cpu().numpy().reshape(count, -1, count).transpose(2, 1, 0) for place in rules.places]
            for rules in self.theory.rules
        ]

    @cached_property
    def _guards(self) -> list[Scores | None]:
        return [None if r.guard is None else r.guard.double().cpu().numpy() for r in self.theory.rules]

    @cached_property
    def _ways(self) -> dict[Template, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Template -> (parts sorted by target, where the parts of each target begin)."""
        found = {}
        for ways in self.chart.ways:
            order = np.argsort(ways.targets, kind="stable")
            begins = np.searchsorted(ways.targets[order], np.arange(len(self.chart.pairs) + 1))
            found[ways.template] = (ways.parts[order], begins)
        return found

    def _by_any_fact(self, goal: TabledGoal) -> float:
        return max((move.value for move in self._facts(goal)), default=0.0)

    def _facts(self, goal: TabledGoal) -> list[Move]:
        stated = np.flatnonzero(self.facts[goal.row])
        if not goal.root or self._goal_meets is None:
            return [Move(1.0, (1.0,), (), ByFact(goal.predicate))] if goal.predicate in stated else []
        meets = [(int(p), float(self._goal_meets[p, goal.predicate])) for p in stated]
        return [Move(score, (score,), (), ByFact(predicate)) for predicate, score in meets if score > 0]

    def _rules(self, goal: TabledGoal, width: int) -> list[Move]:
        if goal.level == 0:
            return []
        found: list[Move] = []
        for rules, places, guard in zip(self.theory.rules, self._places, self._guards, strict=True):
            if rules.template not in self._ways:
                continue
            parts, begins = self._ways[rules.template]
            chosen = parts[begins[goal.row] : begins[goal.row + 1]]
            if len(chosen):
                own = [place[goal.predicate] for place in places]
                weights = None if guard is None else guard[:, goal.predicate]
                found += self._candidates(goal, width, _Choices(rules.template, chosen, own, weights))
        return found

    def _candidates(self, goal: TabledGoal, width: int, choices: _Choices) -> list[Move]:
        """The `width` best bodies over all ways and reformulators."""
        template, parts, places, guard = choices
        below, ceiling = self._below(goal), self.best(goal)
        bodies = self._bodies(goal, width, choices, ceiling)
        totals, ages = bodies.totals.reshape(-1), bodies.ages.reshape(-1)
        order = self._top(totals, ages, min(totals.size, width), ceiling)
        moves = []
        for index in order[totals[order] > 0]:
            way, reformulator, combination = np.unravel_index(index, bodies.totals.shape)
            body = tuple(int(place[way, reformulator, combination]) for place in bodies.predicates)
            scores = tuple(float(unify[reformulator, predicate]) for unify, predicate in zip(places, body, strict=True))
            gate = () if guard is None else (float(guard[reformulator]),)
            subgoals = tuple(TabledGoal(int(row), p, below) for row, p in zip(parts[way], body, strict=True))
            value = self.tnorm.of([*gate, *scores, *(self.best(sub) for sub in subgoals)])
            own = [unify[reformulator] for unify in places]
            generated = tuple((int(unified.argmax()), float(unified.max())) for unified in own)
            note = ByRule(template, body, guard is not None, generated)
            moves.append(Move(value, gate + scores, subgoals, note, 1 + int(ages[index])))
        return moves

    def _bodies(self, goal: TabledGoal, width: int, choices: _Choices, ceiling: float) -> _Bodies:
        """Builds bodies place by place, and keeps at most `width` for each way and reformulator."""
        _, parts, places, guard = choices
        shape = (len(parts), places[0].shape[0], 1)
        totals = np.ones(shape) if guard is None else np.broadcast_to(guard[None, :, None], shape)
        found = _Bodies(totals, np.zeros(shape, dtype=np.int64), [])
        for place, unify in enumerate(places):
            rows = self._rows(self._below(goal))[parts[:, place]]
            values = self.tnorm.arrays(unify[None], self.values[rows, None, :])  # [way, reformulator, predicate]
            if self.cyclic:
                values[parts[:, place] == goal.row, :, goal.predicate] = 0  # no goal may prove itself
            since = np.broadcast_to(self.since[rows, None, :], values.shape)
            best = self._top(values, since, min(width, self.theory.num_predicates), ceiling)
            kept, old = np.take_along_axis(values, best, axis=2), np.take_along_axis(since, best, axis=2)
            found = found.joined(self.tnorm.arrays(found.totals[..., :, None], kept[:, :, None, :]), old, best)
            if found.totals.shape[2] > width:
                found = found.at(self._top(found.totals, found.ages, width, ceiling))
        return found

    def _top(self, values: Scores, since: NDArray[np.int64], count: int, ceiling: float) -> NDArray[np.int64]:
        """Indices of the `count` best values on the last axis; in cyclic spaces, equal ones go oldest first."""
        if not self.cyclic:
            return np.argpartition(-values, count - 1, axis=-1)[..., :count]
        if self.tnorm.idempotent:
            # All values above the goal's own score are equally good, and the oldest leads to a finished proof.
            values = np.minimum(values, ceiling)
        return np.lexsort((since, -_rounded(values)), axis=-1)[..., :count]


def _rounded(values: Scores) -> Scores:
    """`rounded` for arrays."""
    mantissas, exponents = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(mantissas * PRECISION) / PRECISION, exponents))
