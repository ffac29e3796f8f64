"""Stacks many graphs into one batch: charts laid end to end, as tensors on a device, without padding."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import torch
from torch import Tensor

from ctp_core.ctp_graphs.charts import Ids, LayeredChart, Shape
from ctp_core.ctp_graphs.stepped_charts import Step, SteppedChart
from ctp_core.kb.isomorphism import CanonicalGraph
from ctp_core.rules import Template
from ctp_core.shapes import Int
from ctp_core.symbols import Vocabulary


@dataclass(frozen=True)
class Instance:
    """A graph as a prover sees it; `facts` holds (edge of the shape, predicate), without repetition."""

    shape: Shape
    facts: Ids  # [fact, 2]

    @classmethod
    def of(
        cls, graph: CanonicalGraph, predicates: Vocabulary, queries: tuple[tuple[int, int], ...] | None = None
    ) -> "Instance":
        """Builds an instance; raises UnknownSymbol for a predicate without a vector."""
        edges = dict.fromkeys((a, b) for a, _, b in graph.edges)
        index = {edge: i for i, edge in enumerate(edges)}
        facts = [(index[(a, b)], predicates.id(predicate)) for a, predicate, b in graph.edges]
        shape = Shape(graph.num_entities, tuple(edges), queries or (graph.query,))
        return cls(shape, np.array(facts, dtype=np.int64).reshape(-1, 2))


@dataclass(frozen=True)
class BatchWays:
    """Ways of one template over the whole batch: targets[w] through rows[0][w], rows[1][w], …

    `used[a]` holds the distinct rows in place a, and `parts[a]` points into them. `one_each` says that every target has
    exactly one way, in order, so there is nothing to choose.
    """

    template: Template
    targets: Int[Tensor, " way"]
    rows: tuple[Int[Tensor, " way"], ...]
    used: tuple[Int[Tensor, " row"], ...] = ()
    parts: tuple[Int[Tensor, " way"], ...] = ()
    one_each: bool = False


@dataclass(frozen=True)
class BatchStep:
    rows: Int[Tensor, " row"]
    ways: tuple[BatchWays, ...]


@dataclass(frozen=True)
class SteppedBatch:
    """A batch for the tabled prover. `repeats` are the steps of cyclic graphs, repeated until nothing changes.

    `levels` says that each step is a level: once a step changes nothing, no later one will.
    """

    num_pairs: int
    fact_rows: Int[Tensor, " fact"]
    fact_predicates: Int[Tensor, " fact"]
    query_rows: Int[Tensor, " query"]
    steps: Iterable[BatchStep]
    repeats: tuple[BatchStep, ...]
    levels: bool


@dataclass(frozen=True)
class BatchLayer:
    num_pairs: int
    fact_rows: Int[Tensor, " fact"]
    fact_predicates: Int[Tensor, " fact"]
    ways: tuple[BatchWays, ...]


@dataclass(frozen=True)
class LayeredBatch:
    """A batch for the exact prover, goals first. `query_rows` sorts the rows of the first layer by query."""

    layers: tuple[BatchLayer, ...]
    query_rows: Int[Tensor, " query"]


@dataclass(frozen=True)
class _Block:
    """The instances of one shape, laid side by side."""

    members: list[int]
    facts: Ids  # [fact, 3]: which member, edge, predicate

    def spread(self, rows: Ids, size: int, start: int) -> Ids:
        """Repeats rows for every member, as [member, *rows]; members are `size` rows apart, the first at `start`."""
        offsets = start + size * np.arange(len(self.members))
        return offsets.reshape(-1, *(1,) * rows.ndim) + rows


def _blocks(instances: Sequence[Instance]) -> dict[Shape, _Block]:
    members: dict[Shape, list[int]] = defaultdict(list)
    for i, instance in enumerate(instances):
        members[instance.shape].append(i)
    blocks = {}
    for shape, chosen in members.items():
        counts = [len(instances[i].facts) for i in chosen]
        which = np.repeat(np.arange(len(chosen)), counts)
        blocks[shape] = _Block(chosen, np.column_stack([which, np.concatenate([instances[i].facts for i in chosen])]))
    return blocks


def _fact_rows(block: _Block, edge_rows: Ids, size: int, start: int) -> tuple[Ids, Ids]:
    """(row, predicate) of every fact that the chart needs."""
    rows = edge_rows[block.facts[:, 1]] if len(edge_rows) else np.zeros(0, dtype=np.int64)
    needed = rows >= 0
    facts = block.facts[needed] if len(edge_rows) else block.facts[:0]
    return start + size * facts[:, 0] + rows[needed], facts[:, 2]


def _query_rows(blocks: dict[Shape, _Block], rows: dict[Shape, Ids]) -> Ids:
    """Puts rows [block, member, query] back into the order of the instances."""
    order = np.concatenate([np.repeat(b.members, len(shape.queries)) for shape, b in blocks.items()])
    flat = np.concatenate([rows[shape].reshape(-1) for shape in blocks])
    return flat[np.argsort(order, kind="stable")]


def _tensors(columns: Sequence[Ids], device: torch.device) -> tuple[Tensor, ...]:
    return tuple(torch.as_tensor(column, device=device) for column in columns)


def _ways(template: Template, targets: list[Ids], parts: list[Ids], device: torch.device) -> BatchWays:
    target, part = np.concatenate(targets), np.concatenate(parts)
    return BatchWays(template, torch.as_tensor(target, device=device), _tensors(list(part.T), device))


def _shared_ways(
    template: Template, targets: list[Ids], parts: list[Ids], rows: int, device: torch.device
) -> BatchWays:
    """Ways that list the distinct rows of each place, because the tabled prover transforms each row once."""
    target, part = np.concatenate(targets), np.concatenate(parts)
    used, inverse = zip(*(np.unique(column, return_inverse=True) for column in part.T), strict=True)
    one_each = len(target) == rows and bool((target == np.arange(rows)).all())
    columns = _tensors(list(part.T), device), _tensors(used, device), _tensors(inverse, device)
    return BatchWays(template, torch.as_tensor(target, device=device), *columns, one_each)


def stack_layered(
    instances: Sequence[Instance], charts: dict[Shape, LayeredChart], device: torch.device
) -> LayeredBatch:
    """Stacks charts layer by layer; all must have the same depth and templates."""
    blocks = _blocks(instances)
    depth = len(next(iter(charts.values())).layers)
    starts = {shape: np.zeros(depth + 1, dtype=np.int64) for shape in blocks}
    totals = np.zeros(depth + 1, dtype=np.int64)
    for shape, block in blocks.items():
        starts[shape] = totals.copy()
        totals[:depth] += [layer.num_pairs * len(block.members) for layer in charts[shape].layers]
    layers = []
    for level in range(depth):
        at = {shape: charts[shape].layers[level] for shape in blocks}
        facts = [_fact_rows(b, at[s].edge_rows, at[s].num_pairs, int(starts[s][level])) for s, b in blocks.items()]
        ways = _layer_ways(blocks, charts, starts, level, device)
        fact_rows, predicates = (
            torch.as_tensor(np.concatenate(column), device=device) for column in zip(*facts, strict=True)
        )
        layers.append(BatchLayer(int(totals[level]), fact_rows, predicates, ways))
    first = {s: b.spread(np.arange(len(s.queries)), len(s.queries), int(starts[s][0])) for s, b in blocks.items()}
    return LayeredBatch(tuple(layers), torch.as_tensor(_query_rows(blocks, first), device=device))


def _layer_ways(
    blocks: dict[Shape, _Block],
    charts: dict[Shape, LayeredChart],
    starts: dict[Shape, Ids],
    level: int,
    device: torch.device,
) -> tuple[BatchWays, ...]:
    ways = []
    for kind, of_first in enumerate(next(iter(charts.values())).layers[level].ways):
        targets, parts = [], []
        for shape, block in blocks.items():
            here, below = charts[shape].layers[level : level + 2]
            own, start = here.ways[kind], starts[shape]
            targets.append(block.spread(own.targets, here.num_pairs, int(start[level])).reshape(-1))
            found = block.spread(own.parts, below.num_pairs, int(start[level + 1]))
            parts.append(found.reshape(-1, own.parts.shape[1]))
        ways.append(_ways(of_first.template, targets, parts, device))
    return tuple(ways)


def stack_stepped(
    instances: Sequence[Instance], charts: dict[Shape, SteppedChart], device: torch.device
) -> SteppedBatch:
    """Step k of the batch is step k of every chart. `steps` may be a generator: it can be read only once."""
    blocks = _blocks(instances)
    starts, total = {}, 0
    for shape, block in blocks.items():
        starts[shape] = total
        total += len(charts[shape].pairs) * len(block.members)
    facts = [_fact_rows(b, charts[s].edge_rows, len(charts[s].pairs), starts[s]) for s, b in blocks.items()]
    fact_rows, predicates = (np.concatenate(column) for column in zip(*facts, strict=True))
    queries = {s: b.spread(charts[s].query_rows, len(charts[s].pairs), starts[s]) for s, b in blocks.items()}
    cyclic = {shape: block for shape, block in blocks.items() if charts[shape].cyclic}
    repeats = tuple(_stacked_steps(cyclic, charts, starts, device))
    steps = repeats if len(cyclic) == len(blocks) else _stacked_steps(blocks, charts, starts, device)
    return SteppedBatch(
        total,
        torch.as_tensor(fact_rows, device=device),
        torch.as_tensor(predicates, device=device),
        torch.as_tensor(_query_rows(blocks, queries), device=device),
        steps,
        repeats,
        all(charts[shape].levels for shape in blocks),
    )


def _stacked_steps(
    blocks: dict[Shape, _Block], charts: dict[Shape, SteppedChart], starts: dict[Shape, int], device: torch.device
) -> Iterator[BatchStep]:
    for together in zip_longest(*(charts[shape].steps for shape in blocks)):
        with_step = {shape: step for shape, step in zip(blocks, together, strict=True) if step is not None}
        yield _stacked_step(with_step, blocks, charts, starts, device)


def _stacked_step(
    with_step: dict[Shape, Step],
    blocks: dict[Shape, _Block],
    charts: dict[Shape, SteppedChart],
    starts: dict[Shape, int],
    device: torch.device,
) -> BatchStep:
    rows: list[Ids] = []
    first = {}
    for shape, step in with_step.items():
        first[shape] = sum(len(r) for r in rows)
        rows.append(blocks[shape].spread(step.rows, len(charts[shape].pairs), starts[shape]).reshape(-1))
    every = np.concatenate(rows)
    ways = []
    for kind, of_first in enumerate(next(iter(with_step.values())).ways):
        found = [_spread_step(blocks[s], charts[s], step, kind, first[s], starts[s]) for s, step in with_step.items()]
        targets, parts = ([pair[i] for pair in found] for i in (0, 1))
        if sum(map(len, targets)):
            ways.append(_shared_ways(of_first.template, targets, parts, len(every), device))
    return BatchStep(torch.as_tensor(every, device=device), tuple(ways))


def _spread_step(block: _Block, chart: SteppedChart, step: Step, kind: int, first: int, start: int) -> tuple[Ids, Ids]:
    ways = step.ways[kind]
    targets = block.spread(ways.targets, len(step.rows), first).reshape(-1)
    parts = block.spread(ways.parts, len(chart.pairs), start).reshape(-1, ways.parts.shape[1])
    return targets, parts
