"""Proofs of the tabled prover, read back from its tables like a chart parse."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ctp_core.provers.search import Fold, MinFold, Move, Space
from ctp_core.provers.stepped import SteppedChart
from ctp_core.provers.tabled import TabledTheory
from ctp_core.rules import Template

Scores = NDArray[np.float64]


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
    template: Template
    body: tuple[int, ...]
    guarded: bool


class TabledSpace(Space):
    """`tables[0]` holds the facts. With `since`, tables[-1] is the fixpoint; without, tables[k] is T after k levels."""

    def __init__(
        self,
        chart: SteppedChart,
        theory: TabledTheory,
        tables: Sequence[Scores],
        fold: Fold,
        width: int,
        since: NDArray[np.int64] | None,
    ) -> None:
        self.chart, self.theory, self.tables, self.fold = chart, theory, tables, fold
        self.width = width  # proofs wanted: no place needs more alternatives than that
        self.cyclic = chart.cyclic or since is None  # at another depth the same goal is another sub-goal
        self.since = since
        self._moves: dict[TabledGoal, list[Move]] = {}

    def identity(self, goal: TabledGoal) -> tuple[int, int]:
        return goal.row, goal.predicate

    def best(self, goal: TabledGoal) -> float:
        proved = float(self.tables[goal.level][goal.row, goal.predicate])
        return max(proved, self._by_any_fact(goal)) if goal.root else proved

    def moves(self, goal: TabledGoal) -> Sequence[Move]:
        if goal not in self._moves:
            found = [*self._facts(goal), *self._rules(goal)]
            self._moves[goal] = sorted(found, key=lambda move: (-move.value, move.rank))
        return self._moves[goal]

    @cached_property
    def _goal_meets(self) -> Scores | None:
        goals = self.theory.goals
        return None if goals is None else goals.double().cpu().numpy()

    @cached_property
    def _places(self) -> list[list[Scores]]:
        """For each group of rules and each place: U as [predicate r, reformulator, predicate r′]."""
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
        """Template -> (parts sorted by target, where each target's begin)."""
        ways = {}
        for splits in self.chart.splits:
            order = np.argsort(splits.targets, kind="stable")
            begins = np.searchsorted(splits.targets[order], np.arange(len(self.chart.pairs) + 1))
            ways[splits.template] = (splits.parts[order], begins)
        return ways

    def _by_any_fact(self, goal: TabledGoal) -> float:
        return max((move.value for move in self._facts(goal)), default=0.0)

    def _facts(self, goal: TabledGoal) -> list[Move]:
        stated = np.flatnonzero(self.tables[0][goal.row])
        if not goal.root or self._goal_meets is None:
            return [Move(1.0, (1.0,), (), ByFact(goal.predicate))] if goal.predicate in stated else []
        meets = [(int(p), float(self._goal_meets[p, goal.predicate])) for p in stated]
        return [Move(score, (score,), (), ByFact(predicate)) for predicate, score in meets if score > 0]

    def _rules(self, goal: TabledGoal) -> list[Move]:
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
                found += self._candidates(goal, rules.template, chosen, own, weights)
        return found

    def _candidates(
        self, goal: TabledGoal, template: Template, parts: NDArray[np.int64], places: list[Scores], guard: Scores | None
    ) -> list[Move]:
        """The best bodies over all splits and reformulators; `width` alternatives at each place are enough."""
        below = goal.level - 1 if goal.level > 0 else goal.level
        table, keep = self.tables[below], min(self.width, self.theory.num_predicates)
        shape = (len(parts), places[0].shape[0], 1)
        totals = np.ones(shape) if guard is None else np.broadcast_to(guard[None, :, None], shape)
        ages, chosen = np.zeros(shape, dtype=np.int64), []
        for place, unify in enumerate(places):
            values = self._times(unify[None], table[parts[:, place], None, :])  # [split, reformulator, predicate]
            since = None if self.since is None else np.broadcast_to(self.since[parts[:, place], None, :], values.shape)
            best = self._top(values, since, keep, self.best(goal))
            chosen.append(best)
            kept = np.take_along_axis(values, best, axis=2)
            old = np.zeros_like(best) if since is None else np.take_along_axis(since, best, axis=2)
            totals = self._times(totals[..., :, None], kept[:, :, None, :]).reshape(*shape[:2], -1)
            ages = np.maximum(ages[..., :, None], old[:, :, None, :]).reshape(*shape[:2], -1)
        limit = min(totals.size, self.width * shape[1])
        order = self._top(totals.reshape(1, 1, -1), ages.reshape(1, 1, -1), limit, self.best(goal))[0, 0]
        moves = []
        for index in order[totals.reshape(-1)[order] > 0]:
            split, reformulator, combination = np.unravel_index(index, totals.shape)
            ranks = np.unravel_index(combination, (keep,) * len(places))
            body = tuple(int(c[split, reformulator, rank]) for c, rank in zip(chosen, ranks, strict=True))
            scores = tuple(float(unify[reformulator, predicate]) for unify, predicate in zip(places, body, strict=True))
            gate = () if guard is None else (float(guard[reformulator]),)
            subgoals = tuple(TabledGoal(int(row), p, below) for row, p in zip(parts[split], body, strict=True))
            value = self.fold.of([*gate, *scores, *(self.best(sub) for sub in subgoals)])
            note = ByRule(template, body, guard is not None)
            moves.append(Move(value, gate + scores, subgoals, note, 1 + int(ages[split, reformulator, combination])))
        return moves

    @property
    def _times(self) -> Callable[[Scores, Scores], Scores]:
        return np.minimum if isinstance(self.fold, MinFold) else np.multiply

    def _top(self, values: Scores, since: NDArray[np.int64] | None, count: int, ceiling: float) -> NDArray[np.int64]:
        """The places of the `count` best values on the last axis."""
        if since is None or not isinstance(self.fold, MinFold):
            return np.argpartition(-values, count - 1, axis=-1)[..., :count]
        # With min, whatever is above the goal's own score is as good as any other, and the oldest leads to an end.
        return np.lexsort((since, -np.minimum(values, ceiling)), axis=-1)[..., :count]
