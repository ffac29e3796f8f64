"""Charts for the exact prover: one layer for each remaining depth, because sub-goals differ from level to level."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctp_core.base.deadline import Expired, never
from ctp_core.ctp_graphs.charts import Ids, Shape, Splits, as_parts, connect, rows_of, rule_templates, split
from ctp_core.rules import Template


@dataclass(frozen=True)
class Layer:
    """Pairs that sub-goals of one remaining depth need; the parts of its splits are rows of the layer below."""

    num_pairs: int
    edge_rows: Ids  # [edge] -> row, −1 where no sub-goal needs it
    splits: tuple[Splits, ...]
    pairs: Ids  # [pair, 2]


@dataclass(frozen=True)
class LayeredChart:
    """Layers from the goals (remaining depth d) down to facts only (0); rows of the first layer are the queries."""

    layers: tuple[Layer, ...]


def layered_chart(shape: Shape, templates: Sequence[Template], depth: int, expired: Expired = never) -> LayeredChart:
    """What the recursion to this depth can visit, from the queries down; raises OutOfTime."""
    kinds = rule_templates(templates)
    connected = connect(shape, kinds, depth, expired)
    needed = np.array(shape.queries, dtype=np.int64).reshape(-1, 2)
    layers = []
    for remaining in range(depth, -1, -1):
        rows = rows_of(needed, shape.num_entities)
        edges = np.array([rows[edge] for edge in shape.edges], dtype=np.int64)
        below, splits = np.zeros((0, 2), dtype=np.int64), []
        if remaining:
            step = connected.at(remaining - 1)
            ways = [(kind, *split(needed, kind, step, expired)) for kind in kinds]
            below = _passed([paths for _, _, paths in ways], shape.num_entities)
            rows_below = rows_of(below, shape.num_entities)
            splits = [Splits(kind, targets, as_parts(paths, rows_below)) for kind, targets, paths in ways]
        layers.append(Layer(len(needed), edges, tuple(splits), needed))
        needed = below
    return LayeredChart(tuple(layers))


def _passed(paths: list[Ids], num_entities: int) -> Ids:
    """The distinct pairs on these paths."""
    seen = np.zeros((num_entities, num_entities), dtype=bool)
    for path in paths:
        seen[path[:, :-1], path[:, 1:]] = True
    return np.argwhere(seen)
