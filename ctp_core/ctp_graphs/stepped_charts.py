"""Charts for the tabled prover: one table for all depths, and the steps that fill it.

To a given depth, a step is a level, and recomputes only pairs that can change at it. To the fixpoint, a step is a wave
of pairs that depend only on earlier waves, so an acyclic graph takes one pass, like a chart parse; where dependencies
are cyclic, the waves are repeated until no score changes. Steps are made one at a time, on demand, because a chain of n
facts has n levels, and most of its ways are in most of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ctp_core.base.deadline import Expired, look, never
from ctp_core.ctp_graphs.charts import (
    Connected,
    Flags,
    Ids,
    Shape,
    Ways,
    as_parts,
    connect,
    rows_of,
    rule_templates,
    ways_through,
)
from ctp_core.rules import Template


@dataclass(frozen=True)
class Step:
    """Rows to compute again. Targets of its ways are indices into `rows`, parts are rows of the table."""

    rows: Ids
    ways: tuple[Ways, ...]


@dataclass(frozen=True)
class Steps:
    """An iterable that makes the steps again at each iteration."""

    make: Callable[[], Iterator[Step]]

    def __iter__(self) -> Iterator[Step]:
        return self.make()


@dataclass(frozen=True)
class SteppedChart:
    """The pairs that queries need, their ways, and the steps that fill the table.

    `cyclic`: the steps must be repeated until nothing changes. `levels`: step k is level k, and after a step that
    changes nothing, no later one does.
    """

    pairs: Ids  # [pair, 2]
    edge_rows: Ids  # [edge] -> row, −1 where no query needs it
    query_rows: Ids  # [query]
    steps: Iterable[Step]
    ways: tuple[Ways, ...]  # of all steps; targets are rows of the table
    cyclic: bool
    levels: bool


def stepped_chart(
    shape: Shape, templates: Sequence[Template], depth: int | None, expired: Expired = never
) -> SteppedChart:
    """Builds the chart of all pairs that the queries need at this depth, or at any depth (None); raises OutOfTime."""
    kinds = rule_templates(templates) if depth != 0 else ()
    connected = connect(shape, kinds, depth, expired)
    pairs = _needed(shape, kinds, connected, expired)
    rows = rows_of(pairs, shape.num_entities)
    below = connected.within[-1] if depth is None else connected.at(depth - 1)
    found = [(kind, *ways_through(pairs, kind, below, expired)) for kind in kinds]
    ways = tuple(Ways(kind, targets, as_parts(paths, rows)) for kind, targets, paths in found)
    facts = np.zeros(len(pairs), dtype=bool)
    edges = np.array([rows[edge] for edge in shape.edges], dtype=np.int64)
    facts[edges[edges >= 0]] = True
    queries = np.array([rows[query] for query in shape.queries], dtype=np.int64)
    if depth is not None:
        steps = Steps(lambda: _levels(ways, facts, depth, expired))
        return SteppedChart(pairs, edges, queries, steps, ways, cyclic=False, levels=True)
    longest = _longest(shape, kinds, pairs, expired)
    order = _shortest(connected, pairs) if longest is None else longest
    steps = Steps(lambda: _waves(ways, order, expired))
    return SteppedChart(pairs, edges, queries, steps, ways, cyclic=longest is None, levels=False)


def _needed(shape: Shape, kinds: Sequence[Template], connected: Connected, expired: Expired) -> Ids:
    """The queries and all pairs below them that can be connected."""
    step = connected.within[-1]
    needed = np.zeros_like(step)
    new = np.unique(np.array(shape.queries, dtype=np.int64).reshape(-1, 2), axis=0)
    while len(new):
        needed[new[:, 0], new[:, 1]] = True
        below = np.zeros_like(step)
        for kind in kinds:
            _, paths = ways_through(new, kind, step, expired)
            below[paths[:, :-1], paths[:, 1:]] = True
        new = np.argwhere(below & ~needed)
    return np.argwhere(needed)


def _levels(ways: tuple[Ways, ...], facts: Flags, depth: int, expired: Expired) -> Iterator[Step]:
    """One step per level, with the pairs that have a part that changed at the level before."""
    proved, changed = facts, facts
    for _ in range(depth):
        look(expired)
        ready = [proved[w.parts].all(axis=1) for w in ways]
        moved = [changed[w.parts].any(axis=1) & r for w, r in zip(ways, ready, strict=True)]
        now = np.zeros_like(facts)
        for w, m in zip(ways, moved, strict=True):
            now[w.targets[m]] = True
        if not now.any():
            return
        keep = [r & now[w.targets] for w, r in zip(ways, ready, strict=True)]
        yield _step(ways, keep, now)
        proved, changed = proved | now, now


def _waves(ways: tuple[Ways, ...], order: Ids, expired: Expired) -> Iterator[Step]:
    """One step per wave. Ways are sorted once and cut, because a long chain has as many waves as facts."""
    sorted_ways = []
    for w in ways:
        by_wave = np.argsort(order[w.targets], kind="stable")
        sorted_ways.append(Ways(w.template, w.targets[by_wave], w.parts[by_wave]))
    with_ways = np.unique(np.concatenate([w.targets for w in ways])) if ways else np.zeros(0, dtype=np.int64)
    for wave in np.unique(order[with_ways]):
        look(expired)
        yield _wave(sorted_ways, order, wave, with_ways)


def _wave(ways: list[Ways], order: Ids, wave: int, with_ways: Ids) -> Step:
    rows = with_ways[order[with_ways] == wave]
    chosen = []
    for w in ways:
        start, end = np.searchsorted(order[w.targets], (wave, wave + 1))
        chosen.append(Ways(w.template, np.searchsorted(rows, w.targets[start:end]), w.parts[start:end]))
    return Step(rows, tuple(chosen))


def _step(ways: tuple[Ways, ...], keep: list[Flags], now: Flags) -> Step:
    rows = np.flatnonzero(now)
    position = np.full(len(now), -1, dtype=np.int64)
    position[rows] = np.arange(len(rows))
    kept = (Ways(w.template, position[w.targets[k]], w.parts[k]) for w, k in zip(ways, keep, strict=True))
    return Step(rows, tuple(kept))


def _longest(shape: Shape, kinds: Sequence[Template], pairs: Ids, expired: Expired) -> Ids | None:
    """The longest path between each pair, or None where a pair may depend on itself."""
    if any(kind.reversed or kind.length == 1 for kind in kinds):
        return None
    size = shape.num_entities
    step = np.zeros((size, size), dtype=bool)
    if shape.edges:
        step[tuple(np.array(shape.edges).T)] = True
    indegree = step.sum(axis=0)
    length = np.where(np.eye(size, dtype=bool), 0, -1)  # [from, to], −1 where there is no path
    ready, done = list(np.flatnonzero(indegree == 0)), 0
    while ready:
        look(expired)
        entity = ready.pop()
        done += 1
        for successor in np.flatnonzero(step[entity]):
            through = np.where(length[:, entity] >= 0, length[:, entity] + 1, -1)
            length[:, successor] = np.maximum(length[:, successor], through)
            indegree[successor] -= 1
            if indegree[successor] == 0:
                ready.append(successor)
    return length[pairs[:, 0], pairs[:, 1]] if done == size else None


def _shortest(connected: Connected, pairs: Ids) -> Ids:
    """The depth at which each pair is first connected: a good order where there is no perfect one."""
    first = np.full(len(pairs), len(connected.within), dtype=np.int64)
    for level, within in reversed(list(enumerate(connected.within))):
        first[within[pairs[:, 0], pairs[:, 1]]] = level
    return first
