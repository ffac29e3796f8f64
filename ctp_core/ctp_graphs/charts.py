"""Charts: which pairs of a graph can be proved at all, and through which others. No scores, no torch.

A rule of template `n` proves (i, j) through n pairs (i, z₁), (z₁, z₂), …, (zₙ₋₁, j): a *way* from i to j. Only pairs
that some path connects can ever score, so a chart lists only those that the queries need, and their ways. Graphs of
one shape share their chart: it depends on the edges, not on their predicates. Layered charts are for the exact prover;
those of the tabled prover are in stepped_charts.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ctp_core.base.deadline import Expired, look, never
from ctp_core.errors import DataError
from ctp_core.rules import Template

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]

# A chart of this many ways takes hundreds of megabytes; larger graphs belong in a KB of facts.
MAX_WAYS = 4_000_000
# Tables of pairs then take dozens of megabytes each, and their products about a second.
MAX_ENTITIES = 2_000
# Paths extended at once, times entities: a few megabytes.
CONTINUED_AT_ONCE = 1 << 22


class Shape(NamedTuple):
    """A graph without predicates: its distinct edges, and the pairs that queries ask about."""

    num_entities: int
    edges: tuple[tuple[int, int], ...]
    queries: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Ways:
    """The ways to prove pairs by one template: targets[w] through parts[w, 0], parts[w, 1], …"""

    template: Template
    targets: Ids  # [way]
    parts: Ids  # [way, atom]


@dataclass(frozen=True)
class Connected:
    """The pairs connected within each number of levels, up to the last level or until nothing changes."""

    within: list[Flags]  # level -> [entity, entity]

    def at(self, level: int) -> Flags:
        return self.within[min(level, len(self.within) - 1)]


def connect(shape: Shape, templates: Sequence[Template], depth: int | None, expired: Expired = never) -> Connected:
    """Finds the pairs that rules of these templates can connect at each depth, whatever the predicates."""
    if shape.num_entities > MAX_ENTITIES:
        raise DataError(f"the graph has {shape.num_entities:,} entities, but a graph may have at most {MAX_ENTITIES:,}")
    facts = np.zeros((shape.num_entities, shape.num_entities), dtype=bool)
    if shape.edges:
        facts[tuple(np.array(shape.edges).T)] = True
    within = [facts]
    while depth is None or len(within) <= depth:
        found = facts.copy()
        for template in templates:
            look(expired)
            paths = _power(within[-1], template.length)
            found |= paths.T if template.reversed else paths
        if np.array_equal(found, within[-1]):
            break
        within.append(found)
    return Connected(within)


def _power(step: Flags, length: int) -> Flags:
    """Pairs connected by exactly `length` steps."""
    reached = step
    for _ in range(length - 1):
        # NumPy has no fast product of Booleans. Float32 counts stay exact far beyond these sizes.
        reached = (reached.astype(np.float32) @ step.astype(np.float32)) > 0
    return reached


def ways_through(pairs: Ids, template: Template, step: Flags, expired: Expired = never) -> tuple[Ids, Ids]:
    """All paths of the template for these pairs: (pair [way], entities on the path [way, atom + 1])."""
    starts, ends = (pairs[:, 1], pairs[:, 0]) if template.reversed else (pairs[:, 0], pairs[:, 1])
    of, paths = np.arange(len(pairs)), starts[:, None]
    for hop in range(1, template.length):
        towards = np.ascontiguousarray(_power(step, template.length - hop).T)  # [to, from]
        of, paths = _continued(of, paths, step, towards, ends, expired)
    direct = step[paths[:, -1], ends[of]]
    return of[direct], np.column_stack([paths[direct], ends[of[direct]]])


def _continued(of: Ids, paths: Ids, step: Flags, towards: Flags, ends: Ids, expired: Expired) -> tuple[Ids, Ids]:
    """Extends each path by every entity from which its end can be reached; raises DataError for too many paths."""
    at_once, count = max(1, CONTINUED_AT_ONCE // len(step)), 0
    chosen, middles = [of[:0]], [of[:0]]
    for start in range(0, len(of), at_once):
        look(expired)
        here = slice(start, start + at_once)
        path, middle = np.nonzero(step[paths[here, -1]] & towards[ends[of[here]]])
        count += len(path)
        if count > MAX_WAYS:
            raise DataError(f"the graph has more than {MAX_WAYS:,} paths between its {len(step)} entities: too many")
        chosen.append(start + path)
        middles.append(middle)
    which = np.concatenate(chosen)
    return of[which], np.column_stack([paths[which], np.concatenate(middles)])


def rows_of(pairs: Ids, num_entities: int) -> Ids:
    """[entity, entity] -> the row of a pair, −1 where it is not listed."""
    rows = np.full((num_entities, num_entities), -1, dtype=np.int64)
    rows[pairs[:, 0], pairs[:, 1]] = np.arange(len(pairs))
    return rows


def as_parts(paths: Ids, rows: Ids) -> Ids:
    """Entities on paths [way, atom + 1] -> rows of the pairs they pass [way, atom]."""
    return rows[paths[:, :-1], paths[:, 1:]]


def rule_templates(templates: Sequence[Template]) -> tuple[Template, ...]:
    """The distinct templates that make rules, in order."""
    return tuple(dict.fromkeys(template for template in templates if template.length))


# Layered charts, for the exact prover: its sub-goals differ from level to level, so each depth has a layer.


@dataclass(frozen=True)
class Layer:
    """The pairs that sub-goals of one remaining depth need; parts of its ways are rows of the layer below."""

    num_pairs: int
    edge_rows: Ids  # [edge] -> row, −1 where no sub-goal needs it
    ways: tuple[Ways, ...]
    pairs: Ids  # [pair, 2]


@dataclass(frozen=True)
class LayeredChart:
    """Layers from the goals (remaining depth d) down to facts only (0); rows of the first layer are the queries."""

    layers: tuple[Layer, ...]


def layered_chart(shape: Shape, templates: Sequence[Template], depth: int, expired: Expired = never) -> LayeredChart:
    """Lists what the recursion to this depth can visit, from the queries down; raises OutOfTime."""
    kinds = rule_templates(templates)
    connected = connect(shape, kinds, depth, expired)
    needed = np.array(shape.queries, dtype=np.int64).reshape(-1, 2)
    layers = []
    for remaining in range(depth, -1, -1):
        rows = rows_of(needed, shape.num_entities)
        edges = np.array([rows[edge] for edge in shape.edges], dtype=np.int64)
        below, ways = np.zeros((0, 2), dtype=np.int64), []
        if remaining:
            step = connected.at(remaining - 1)
            found = [(kind, *ways_through(needed, kind, step, expired)) for kind in kinds]
            below = _passed([paths for _, _, paths in found], shape.num_entities)
            rows_below = rows_of(below, shape.num_entities)
            ways = [Ways(kind, targets, as_parts(paths, rows_below)) for kind, targets, paths in found]
        layers.append(Layer(len(needed), edges, tuple(ways), needed))
        needed = below
    return LayeredChart(tuple(layers))


def _passed(paths: list[Ids], num_entities: int) -> Ids:
    """The distinct pairs on these paths."""
    seen = np.zeros((num_entities, num_entities), dtype=bool)
    for path in paths:
        seen[path[:, :-1], path[:, 1:]] = True
    return np.argwhere(seen)
