"""Proofs of the exact prover, read back from the tables of its layers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ctp_core.ctp_graphs.batches import LayeredBatch
from ctp_core.ctp_graphs.exact import Growth, Level
from ctp_core.ctp_graphs.search import Move, Space
from ctp_core.ctp_graphs.tabled_proofs import ByFact
from ctp_core.rules import Template
from ctp_core.shapes import Tensor
from ctp_core.tnorm.base import TNorm

Scores = NDArray[np.float64]


class ExactGoal(NamedTuple):
    """A sub-goal: a pair (row of the layer) and a generated predicate (column of the level)."""

    level: int
    row: int
    column: int


class ByGeneratedRule(NamedTuple):
    template: Template
    guarded: bool


class ExactSpace(Space):
    """The proofs in the tables of the exact prover. Every sub-goal has its level, so no goal repeats below itself."""

    cyclic = False

    def __init__(self, batch: LayeredBatch, levels: Sequence[Level], tables: Sequence[Tensor], tnorm: TNorm) -> None:
        self.batch, self.levels, self.tnorm = batch, levels, tnorm
        self.tables = [table.double().cpu().numpy() for table in tables]
        self.meets = [level.meets.double().cpu().numpy() for level in levels]
        self._moves: dict[ExactGoal, list[Move]] = {}

    def best(self, goal: ExactGoal) -> float:
        return float(self.tables[goal.level][goal.row, goal.column])

    def move(self, goal: ExactGoal, index: int) -> Move | None:
        if goal not in self._moves:
            found = [move for move in (*self._facts(goal), *self._rules(goal)) if move.value > 0]
            self._moves[goal] = sorted(found, key=lambda move: -move.value)
        moves = self._moves[goal]
        return moves[index] if index < len(moves) else None

    def _facts(self, goal: ExactGoal) -> list[Move]:
        layer = self.batch.layers[goal.level]
        stated = layer.fact_predicates[layer.fact_rows == goal.row].tolist()
        scores = [(p, float(self.meets[goal.level][p, goal.column])) for p in stated]
        return [Move(score, (score,), (), ByFact(predicate)) for predicate, score in scores]

    def _rules(self, goal: ExactGoal) -> list[Move]:
        found: list[Move] = []
        for ways in self.batch.layers[goal.level].ways:
            chosen = (ways.targets == goal.row).nonzero()[:, 0]
            parts = [[int(rows[way]) for rows in ways.rows] for way in chosen]
            for growth in self.levels[goal.level].growths:
                if growth.template == ways.template:
                    found += self._by(growth, goal, parts)
        return found

    def _by(self, growth: Growth, goal: ExactGoal, parts: list[list[int]]) -> list[Move]:
        moves = []
        for reformulator in range(growth.reformulators):
            guard = () if growth.guard is None else (float(growth.guard[reformulator, goal.column]),)
            for rows in parts:
                subgoals = tuple(
                    ExactGoal(goal.level + 1, row, self._column(growth, reformulator, place, goal.column))
                    for place, row in enumerate(rows)
                )
                value = self.tnorm.of([*guard, *(self.best(sub) for sub in subgoals)])
                moves.append(Move(value, guard, subgoals, ByGeneratedRule(growth.template, bool(guard))))
        return moves

    @staticmethod
    def _column(growth: Growth, reformulator: int, place: int, goal: int) -> int:
        before = reformulator * growth.template.length + place
        return growth.start + before * growth.goals + (goal if growth.goals > 1 else 0)
