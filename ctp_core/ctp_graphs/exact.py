"""The exact prover: the paper's recursion, computed on tables.

Sub-goal vectors depend only on the goal's predicate: level l holds f(f(…)) of every goal, computed once for a batch of
graphs. Entities are crisp, so a sub-goal meets facts only through their predicates: T₀(v)[i, j] = max over facts
(i, r, j) of K(v, θ_r), and `and` is one product by ⊕ and ⊗ over ways:
T_d(v) = T₀(v) ⊕ ⊕_g head_g(v) ⊗ ⊕_z T_{d−1}(f_g1(v))[i, z] ⊗ T_{d−1}(f_g2(v))[z, j].
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor

from ctp_core.aggregations import Best
from ctp_core.base.deadline import Expired, look, never
from ctp_core.ctp_graphs.batches import BatchLayer, BatchWays, Instance, LayeredBatch, stack_layered
from ctp_core.ctp_graphs.charts import LayeredChart, Shape, layered_chart
from ctp_core.ctp_graphs.theory import Theory
from ctp_core.rules import Template
from ctp_core.select.base import Expansion
from ctp_core.shapes import Float, Heads, Vectors

Table = Float[Tensor, "pair goal"]
GROWN_AT_ONCE = 512  # goals expanded between two looks at the clock; each may attend to hundreds of rules


@dataclass(frozen=True)
class Growth:
    """The rules of one template for all goals of a level; their body vectors are columns `start…` of the next level.

    Columns lie as [reformulator, atom, goal]; `goals` is 1 where the bodies are the same for all goals.
    """

    template: Template
    start: int
    reformulators: int
    goals: int
    guard: Heads | None

    def columns(self, table: Table, place: int) -> Float[Tensor, "pair reformulator goal"]:
        """The tables of one body place."""
        width = self.reformulators * self.template.length * self.goals
        own = table[:, self.start : self.start + width]
        return own.view(-1, self.reformulators, self.template.length, self.goals)[:, :, place]


@dataclass(frozen=True)
class Level:
    """Sub-goals of one level: their vectors, how they meet each known predicate, and what they grow into."""

    vectors: Vectors
    meets: Float[Tensor, "predicate goal"]
    growths: tuple[Growth, ...]


def grow(theory: Theory, goals: Vectors, depth: int, best: Best, expired: Expired = never) -> list[Level]:
    """Computes all sub-goals to this depth, goals first; raises OutOfTime."""
    vectors, growths = [goals], []
    for _ in range(depth):
        expansions = _expansions(theory, vectors[-1], expired)
        growths.append(_growths(expansions, best))
        bodies = [e.bodies.permute(1, 2, 0, 3).reshape(-1, goals.shape[1]) for e in expansions]  # [row, dim]
        vectors.append(torch.cat(bodies))
    growths.append(())
    # One kernel call for all levels: most of the cost of a small batch is the number of calls.
    meets = theory.meet(torch.cat(vectors), theory.vectors).T
    starts = accumulate((len(v) for v in vectors), initial=0)
    return [
        Level(v, meets[:, start : start + len(v)], g) for v, start, g in zip(vectors, starts, growths, strict=False)
    ]


def _expansions(theory: Theory, goals: Vectors, expired: Expired) -> tuple[Expansion, ...]:
    """Expands all goals, some at a time."""
    pieces = []
    for some in goals.split(GROWN_AT_ONCE):  # type: ignore[no-untyped-call]
        look(expired)
        pieces.append(theory.expand(some))
    return tuple(Expansion.joined(parts) for parts in zip(*pieces, strict=True))


def _growths(expansions: Sequence[Expansion], best: Best) -> tuple[Growth, ...]:
    growths, start = [], 0
    for expansion in expansions:
        goals, reformulators, atoms, _ = expansion.bodies.shape
        guard = expansion.guard(best.tnorm)
        if guard is not None:
            # A rule that was not selected has guard 0, which must end its proofs with every ⊗.
            guard = guard.T if best.zero == 0 else guard.T.masked_fill(guard.T == 0, best.zero)
        growths.append(Growth(expansion.template, start, reformulators, goals, guard))
        start += reformulators * atoms * goals
    return tuple(growths)


@dataclass
class ExactProver:
    """Builds layered charts and batches; keeps charts, because graphs of one shape come again and again."""

    templates: tuple[Template, ...]
    _charts: dict[tuple[Shape, int], LayeredChart] = field(default_factory=dict)

    def chart(self, shape: Shape, depth: int) -> LayeredChart:
        key = (shape, depth)
        if key not in self._charts:
            self._charts[key] = self.fresh_chart(shape, depth)
        return self._charts[key]

    def fresh_chart(self, shape: Shape, depth: int, expired: Expired = never) -> LayeredChart:
        """A chart that is not kept, for questions, whose graphs are new and may be large; raises OutOfTime."""
        return layered_chart(shape, self.templates, depth, expired)

    def stack(self, instances: Sequence[Instance], depth: int, device: torch.device) -> LayeredBatch:
        charts = {instance.shape: self.chart(instance.shape, depth) for instance in instances}
        return stack_layered(instances, charts, device)


def prove(batch: LayeredBatch, levels: Sequence[Level], best: Best) -> Float[Tensor, "query goal"]:
    """Scores of all goals for every query; 0 for what cannot be proved, whatever the zero of ⊗ is."""
    scores = tables(batch, levels, best)[0][batch.query_rows]
    return scores if best.zero == 0 else scores.clamp(min=0.0)


def tables(batch: LayeredBatch, levels: Sequence[Level], best: Best) -> list[Table]:
    """The table of every layer, goals first."""
    return list(_upwards(batch, levels, best))[::-1]


def tables_in_time(batch: LayeredBatch, levels: Sequence[Level], best: Best, expired: Expired) -> list[Table] | None:
    """`tables`, or None where time runs out: goals come last, so half of a recursion proves none of them."""
    found: list[Table] = []
    for table in _upwards(batch, levels, best):
        found.append(table)
        if len(found) < len(levels) and expired():
            return None
    return found[::-1]


def _upwards(batch: LayeredBatch, levels: Sequence[Level], best: Best) -> Iterator[Table]:
    """Yields the table of every layer, from the facts up to the goals."""
    below: Table | None = None
    for layer, level in zip(reversed(batch.layers), reversed(levels), strict=True):
        below = _layer_table(layer, level, below, best)
        yield below


def largest_table(batch: LayeredBatch, theory: Theory, goals: int) -> int:
    """Numbers in the largest intermediate of `grow` and `tables`, known before anything is computed."""
    # Two goals, to distinguish bodies made for each goal from bodies that all goals share.
    expansions = theory.expand(theory.vectors[:1].expand(2, -1))
    rules: Counter[Template] = Counter()
    for expansion in expansions:
        rules[expansion.template] += expansion.bodies.shape[1]
    largest = 0
    for layer in batch.layers:
        rows = max((len(ways.targets) * rules[ways.template] for ways in layer.ways), default=0)
        largest = max(largest, goals * max(rows, layer.num_pairs, *theory.vectors.shape))
        goals = sum(e.bodies.shape[1] * e.bodies.shape[2] * (1 if e.static else goals) for e in expansions)
    return largest


def _layer_table(layer: BatchLayer, level: Level, below: Table | None, best: Best) -> Table:
    rows, targets = [level.meets[layer.fact_predicates]], [layer.fact_rows]
    if below is not None:
        for ways in layer.ways:
            for growth in level.growths:
                if growth.template == ways.template:
                    rows.append(_apply(ways, growth, below, best))
                    targets.append(ways.targets)
    return best.scatter(torch.cat(rows), torch.cat(targets), layer.num_pairs)


def _apply(ways: BatchWays, growth: Growth, below: Table, best: Best) -> Float[Tensor, "way goal"]:
    """⊕ over reformulators of guard ⊗ body, for every way."""
    parts = [] if growth.guard is None else [growth.guard[None]]
    parts += [growth.columns(below, place)[ways.rows[place]] for place in range(growth.template.length)]
    return best.reduce(best.product(parts), dim=1)  # [way, reformulator, goal] -> [way, goal]
