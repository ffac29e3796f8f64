"""The tabled prover: generated predicates are replaced by known ones, so one table per known predicate suffices.

T₀(r) = 1 for a fact. X_ga(r) = ⊕_{r′} U_ga[r, r′] ⊗ T(r′) is body place a of reformulator g;
T(r) ← T₀(r) ⊕ ⊕_g w_g[r] ⊗ ⊕_z X_g1(r)[·, z] ⊗ X_g2(r)[z, ·]. Cost is linear in depth. This is not the paper's
recursion f(f(x)): a generated predicate is replaced by known ones before it is reformulated again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import torch
from torch import Tensor

from ctp_core.aggregations import Aggregation, Best, CappedSum, NoisyOr
from ctp_core.base.deadline import Expired, OutOfTime, look, never
from ctp_core.ctp_graphs.batches import BatchStep, BatchWays, Instance, SteppedBatch, stack_stepped
from ctp_core.ctp_graphs.charts import Shape
from ctp_core.ctp_graphs.stepped_charts import SteppedChart, stepped_chart
from ctp_core.ctp_graphs.theory import Theory
from ctp_core.rules import Template
from ctp_core.shapes import Float, Int
from ctp_core.tnorm.base import TNorm
from ctp_core.tnorm.registry import TNORMS

# Scores of cyclic graphs settle after a few rounds; the bound guards against rounding errors that never settle.
MAX_ROUNDS = 1000
# Numbers gathered at once, so that they fit into the cache: a chain of 100 facts gathers 50 million of them.
CACHED = 1 << 15
# Ways whose scores are kept until they are scattered: a few megabytes with their targets.
SCATTERED = 1 << 16

Table = Float[Tensor, "pair predicate"]


@dataclass(frozen=True)
class Aggregations:
    """⊕ at its three places: over body predicates, over the entities in the middle, over rules."""

    predicates: Aggregation
    middles: Aggregation
    rules: Aggregation

    @classmethod
    def answering(cls, tnorm: TNorm) -> "Aggregations":
        best = Best(tnorm)
        return cls(best, best, best)


BEST_PRODUCT = Best(TNORMS["max-product"])


# Sums give every predicate and rule a gradient. Over the middle entities it is max, else repeated proofs would add up.
TRAINING = Aggregations(CappedSum(), BEST_PRODUCT, NoisyOr())


@dataclass(frozen=True)
class TabledRules:
    """All rules of one template: `places[a]` is U_ga[r, r′] as [r′, g · r], `guard` is w_g[r]."""

    template: Template
    places: tuple[Float[Tensor, "predicate column"], ...]
    guard: Float[Tensor, "reformulator predicate"] | None


@dataclass(frozen=True)
class TabledTheory:
    """A theory closed over its predicates. `goals` is how facts unify with goals: [fact's, goal's predicate]."""

    rules: tuple[TabledRules, ...]
    goals: Float[Tensor, "predicate predicate"] | None
    num_predicates: int


def close(theory: Theory, tnorm: TNorm, attention: bool) -> TabledTheory:
    """Unifies every body place with every known predicate: by attention if wanted and available, else by the kernel."""
    vectors = theory.vectors
    count = vectors.shape[0]
    rules = []
    weights = theory.attentions(vectors) if attention else (None,) * len(theory.templates)
    for expansion, weight in zip(theory.expand(vectors), weights, strict=True):
        _, reformulators, atoms, dim = expansion.bodies.shape
        meets = theory.meet(expansion.bodies.reshape(-1, dim), vectors) if weight is None else weight
        unified = meets.view(-1, reformulators, atoms, count).expand(count, -1, -1, -1)
        columns = unified.permute(2, 3, 1, 0).reshape(atoms, count, reformulators * count)  # [atom, r′, g · r]
        guard = expansion.guard(tnorm)
        rules.append(TabledRules(expansion.template, tuple(columns), None if guard is None else guard.T))
    return TabledTheory(tuple(rules), None if attention else theory.meet(vectors, vectors), count)


@dataclass
class TabledProver:
    """Builds stepped charts and batches; keeps charts, because graphs of one shape come again and again."""

    templates: tuple[Template, ...]
    _charts: dict[tuple[Shape, int | None], SteppedChart] = field(default_factory=dict)

    def chart(self, shape: Shape, depth: int | None) -> SteppedChart:
        key = (shape, depth)
        if key not in self._charts:
            chart = self.fresh_chart(shape, depth)
            self._charts[key] = replace(chart, steps=tuple(chart.steps))
        return self._charts[key]

    def fresh_chart(self, shape: Shape, depth: int | None, expired: Expired = never) -> SteppedChart:
        """A chart that is not kept, for questions, whose graphs are new and may be large; raises OutOfTime."""
        return stepped_chart(shape, self.templates, depth, expired)

    def stack(self, instances: Sequence[Instance], depth: int | None, device: torch.device) -> SteppedBatch:
        charts = {instance.shape: self.chart(instance.shape, depth) for instance in instances}
        batch = stack_stepped(instances, charts, device)
        return replace(batch, steps=tuple(batch.steps))


def facts_table(batch: SteppedBatch, theory: TabledTheory, like: Tensor) -> Table:
    """T₀: 1 for a fact, else 0."""
    table = like.new_zeros((batch.num_pairs, theory.num_predicates))
    table[batch.fact_rows, batch.fact_predicates] = 1.0
    return table


@dataclass(frozen=True)
class Levels:
    """T after every level, or only at the fixpoint; at[k][row] is the index in `values` of a row after k levels.

    A row is stored again only where one of its scores rose. `since` is the step at which each score last rose; the
    parts behind a score are older. So a proof that follows the best and oldest parts never repeats a goal, even in a
    cyclic graph.
    """

    values: Float[Tensor, "version predicate"]
    since: Int[Tensor, "version predicate"]
    at: tuple[Int[Tensor, " pair"], ...]


@dataclass(frozen=True)
class Tables:
    """T₀, the last T (`truncated` where time ran out before all steps), and the levels kept on the way."""

    facts: Table
    last: Table
    levels: Levels
    truncated: bool


class _Filling:
    """A table filled in place. Keeps X of every row, so that a row is transformed only when it has changed.

    For answers only, where all three ⊕ are the same.
    """

    def __init__(self, batch: SteppedBatch, theory: TabledTheory, aggregations: Aggregations, expired: Expired) -> None:
        self.theory, self.aggregations, self.expired = theory, aggregations, expired
        self.facts = facts_table(batch, theory, theory.rules[0].places[0])
        self.table = self.facts.clone()
        self.since = torch.zeros_like(self.table, dtype=torch.long)
        self.transformed = [
            [place.new_zeros((batch.num_pairs, place.shape[1])) for place in rules.places] for rules in theory.rules
        ]
        self.transform(batch.fact_rows)

    def transform(self, rows: Int[Tensor, " row"]) -> None:
        for rules, places in zip(self.theory.rules, self.transformed, strict=True):
            for number, (weights, place) in enumerate(zip(rules.places, places, strict=True)):
                values = self.aggregations.predicates.contract(self.table[rows], weights)
                if number == 0 and rules.guard is not None:
                    # ⊗ is commutative: the guard goes in here once per row instead of once per way.
                    values = self.aggregations.rules.times(values, rules.guard.reshape(1, -1))
                place[rows] = values

    def advance(self, step: BatchStep, number: int) -> Int[Tensor, " row"]:
        """Computes the rows of the step again; returns those with a score that rose. Raises OutOfTime."""
        scores = [
            self._choose(ways, places, len(step.rows))
            for ways in step.ways
            for rules, places in zip(self.theory.rules, self.transformed, strict=True)
            if rules.template == ways.template
        ]
        proved = reduce(self.aggregations.rules.plus, scores)
        before, after = self.table[step.rows], self.aggregations.rules.plus(self.facts[step.rows], proved)
        rose = after > before
        changed = step.rows[rose.any(dim=1)]
        if len(changed):
            self.table[step.rows] = after
            self.since[step.rows] = torch.where(rose, number, self.since[step.rows])
            self.transform(changed)
        return changed

    def _choose(self, ways: BatchWays, places: list[Tensor], rows: int) -> Float[Tensor, "row predicate"]:
        """⊕ over rules, then over ways: this order scatters far fewer numbers."""
        blocks = range(0, len(ways.targets), max(SCATTERED, rows))
        scattered = [self._scattered(ways, places, rows, slice(start, start + blocks.step)) for start in blocks]
        return reduce(self.aggregations.middles.plus, scattered)

    def _scattered(
        self, ways: BatchWays, places: list[Tensor], rows: int, block: slice
    ) -> Float[Tensor, "row predicate"]:
        step, targets = max(1, CACHED // places[0].shape[1]), ways.targets[block]
        parts, bodies = [part[block] for part in ways.rows], []
        for start in range(0, len(targets), step):
            look(self.expired)
            here = slice(start, start + step)
            bodies.append(self._bodies([place[part[here]] for place, part in zip(places, parts, strict=True)]))
        best = torch.cat(bodies)
        return best if ways.one_each else self.aggregations.middles.scatter(best, targets, rows)

    def _bodies(self, places: list[Tensor]) -> Float[Tensor, "way predicate"]:
        bodies = self.aggregations.rules.product(places)
        return self.aggregations.rules.reduce(bodies.view(len(bodies), -1, self.table.shape[1]), dim=1)


@torch.no_grad()
def tables(
    batch: SteppedBatch,
    theory: TabledTheory,
    aggregations: Aggregations,
    expired: Expired = never,
    keep_levels: bool = False,
) -> Tables:
    """Runs all steps of the batch, and repeats those of cyclic graphs until nothing changes."""
    filling = _Filling(batch, theory, aggregations, expired)
    kept = _KeptLevels(filling) if keep_levels else _KeptLast(filling)
    try:
        _fill(filling, batch, kept)
        truncated = False
    except OutOfTime:
        truncated = True
    return Tables(filling.facts, filling.table, kept.levels(), truncated)


def _fill(filling: _Filling, batch: SteppedBatch, kept: "_KeptLast") -> None:
    number = 0
    for turn in range(MAX_ROUNDS if batch.repeats else 1):
        rose = False
        for step in batch.repeats if turn else batch.steps:
            look(filling.expired)
            number += 1
            changed = filling.advance(step, number)
            rose |= bool(len(changed))
            kept.keep(changed)
            if batch.levels and not len(changed):
                return
        if not rose:
            return


class _KeptLast:
    """Keeps only the last table."""

    def __init__(self, filling: _Filling) -> None:
        self.filling = filling
        self.at = [torch.arange(len(filling.facts), device=filling.facts.device)]

    def keep(self, changed: Int[Tensor, " row"]) -> None:
        """Takes the rows with a score that rose at this step."""

    def levels(self) -> Levels:
        return Levels(self.filling.table, self.filling.since, tuple(self.at))


class _KeptLevels(_KeptLast):
    """Keeps the table of every level."""

    def __init__(self, filling: _Filling) -> None:
        super().__init__(filling)
        self.values, self.since = [filling.facts], [torch.zeros_like(filling.since)]
        self.count = len(filling.facts)

    def keep(self, changed: Int[Tensor, " row"]) -> None:
        self.values.append(self.filling.table[changed])
        self.since.append(self.filling.since[changed])
        at = self.at[-1].clone()
        at[changed] = torch.arange(self.count, self.count + len(changed), device=at.device)
        self.at.append(at)
        self.count += len(changed)

    def levels(self) -> Levels:
        return Levels(torch.cat(self.values), torch.cat(self.since), tuple(self.at))


def prove(batch: SteppedBatch, theory: TabledTheory, aggregations: Aggregations) -> Float[Tensor, "query predicate"]:
    """Scores of all predicates for every query, after all steps; differentiable where gradients are enabled."""
    if not torch.is_grad_enabled():
        found = tables(batch, theory, aggregations)
        return with_goal_facts(found.last[batch.query_rows], found.facts[batch.query_rows], theory)
    facts = facts_table(batch, theory, theory.rules[0].places[0])
    table = facts
    for step in batch.steps:
        table = advance(table, facts, step, theory, aggregations)
    return with_goal_facts(table[batch.query_rows], facts[batch.query_rows], theory)


def with_goal_facts(
    scores: Float[Tensor, "query predicate"],
    facts: Float[Tensor, "query predicate"],
    theory: TabledTheory,
) -> Float[Tensor, "query predicate"]:
    """Lets the goal itself unify with facts of other predicates, as in the recursion; U does so for sub-goals."""
    if theory.goals is None:
        return scores
    # Facts are 0 or 1, where every t-norm equals the product.
    return torch.maximum(scores, BEST_PRODUCT.contract(facts, theory.goals))


def advance(table: Table, facts: Table, step: BatchStep, theory: TabledTheory, aggregations: Aggregations) -> Table:
    """One step with gradients: computes the rows of the step from the table, and copies the others."""
    scores = [
        _choose(_transformed(table, ways, rules, aggregations), ways, rules, len(step.rows), aggregations)
        for ways in step.ways
        for rules in theory.rules
        if rules.template == ways.template
    ]
    proved = aggregations.rules.reduce(torch.cat(scores, dim=1), dim=1)  # [row, reformulator, predicate] -> [row, …]
    return table.index_copy(0, step.rows, aggregations.rules.plus(facts[step.rows], proved))


def _transformed(
    table: Table, ways: BatchWays, rules: TabledRules, aggregations: Aggregations
) -> list[Float[Tensor, "way column"]]:
    """X at each body place of every way; each distinct row is transformed once."""
    return [
        aggregations.predicates.contract(table[used], place)[part]
        for used, part, place in zip(ways.used, ways.parts, rules.places, strict=True)
    ]


def _choose(
    places: list[Float[Tensor, "way column"]],
    ways: BatchWays,
    rules: TabledRules,
    rows: int,
    aggregations: Aggregations,
) -> Float[Tensor, "row reformulator predicate"]:
    """w ⊗ ⊕ over ways of ⊗ over places, for every row of the step."""
    count = rules.places[0].shape[0]
    bodies = aggregations.rules.product(places).view(len(ways.targets), -1, count)
    if not ways.one_each:
        bodies = aggregations.middles.scatter(bodies, ways.targets, rows)
    return bodies if rules.guard is None else aggregations.rules.times(bodies, rules.guard)
