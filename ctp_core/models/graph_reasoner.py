"""Scores and proofs on graphs, with a theory and one of the two provers: for training, answers and benchmarks."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import torch

from ctp_core.config.ctp import CtpConfig
from ctp_core.datasets.isomorphism import CanonicalGraph
from ctp_core.kernels import ExponentialKernel
from ctp_core.models.base import Budget
from ctp_core.models.graph_proofs import ProofWriter, exact_names, tabled_names
from ctp_core.models.graph_question import AskedGraph
from ctp_core.models.graph_scorer import GraphScorer
from ctp_core.proofs import Proof
from ctp_core.provers import exact, tabled
from ctp_core.provers.batches import Instance, LayeredBatch, SteppedBatch, stack_layered, stack_stepped
from ctp_core.provers.exact_proofs import ExactGoal, ExactSpace
from ctp_core.provers.search import FOLDS, Search, Space
from ctp_core.provers.tabled_proofs import TabledGoal, TabledSpace
from ctp_core.provers.theory import FixedRule, Theory
from ctp_core.rules import Template, parse_rule
from ctp_core.select.base import SelectOptions
from ctp_core.select.registry import SELECTS
from ctp_core.semiring import SEMIRINGS
from ctp_core.shapes import Float, Tensor
from ctp_core.symbols import Fact, Vocabulary

MAX_EXACT_DEPTH = 4  # sub-goals grow exponentially with depth: the deepest of the paper's experiments
DEEPEST_ASKED = 2 * MAX_EXACT_DEPTH  # whatever depth a question asks for
MAX_EXACT_CELLS = 1 << 25  # numbers in one table of the recursion: 256 MB of doubles, and a few of them at a time
TIES = 32  # proofs looked at beyond those wanted, to put equal ones in order

Batch = SteppedBatch | LayeredBatch


def build_theory(config: CtpConfig, predicates: Vocabulary, generator: torch.Generator) -> Theory:
    """Fresh parameters on the device of the generator; raises UnknownSymbol for a fixed rule that does not fit."""
    options = SelectOptions(
        tuple(map(Template.parse, config.templates)),
        config.dim,
        len(predicates),
        ExponentialKernel(config.slope),
        head=config.head,
        gate=config.gate,
        memory=config.memory,
        top_k=config.top_k,
    )
    fixed = [FixedRule.of(parse_rule(text), predicates) for text in config.rules]
    return Theory(len(predicates), SELECTS[config.select](options, generator), fixed, generator)


@dataclass(frozen=True)
class Explained:
    fact: Fact
    score: float
    proofs: tuple[Proof, ...]


@dataclass(frozen=True)
class Explanation:
    items: tuple[Explained, ...]
    truncated: bool


@dataclass(frozen=True)
class _Proved:
    """Scores [pair, predicate] of one graph, and the space in which their proofs lie."""

    scores: Float[Tensor, "pair predicate"]
    space: Space
    goal: Callable[[int, int], Any]  # (pair, predicate) -> the root of its proofs
    writer: ProofWriter
    truncated: bool


class GraphReasoner(GraphScorer):
    """A theory with the prover of its config. Training and answering use the same prover."""

    def __init__(self, config: CtpConfig, predicates: Vocabulary, targets: Sequence[str], theory: Theory) -> None:
        self.config, self.predicates, self.targets, self.theory = config, predicates, tuple(targets), theory
        self.module = theory
        self.semiring, self.fold = SEMIRINGS[config.semiring], FOLDS[config.semiring]
        self.tabled = tabled.TabledProver(theory.templates)
        self.exact = exact.ExactProver(theory.templates)
        self.target_ids = torch.tensor([predicates.id(name) for name in self.targets], device=self.device)

    # Many graphs at once

    def instance(self, graph: CanonicalGraph) -> Instance:
        return Instance.of(graph, self.predicates)

    def afresh(self) -> "GraphReasoner":
        return GraphReasoner(self.config, self.predicates, self.targets, self.theory)

    def stack(self, instances: Sequence[Instance], depth: int | None) -> Batch:
        if self.config.prover == "tabled":
            return self.tabled.stack(instances, depth, self.device)
        longest = max(len(instance.shape.edges) for instance in instances)
        return self.exact.stack(instances, self.exact_depth(longest) if depth is None else depth, self.device)

    def training_scores(self, batch: Batch) -> Float[Tensor, "query target"]:
        """Differentiable, with the relaxations of the config."""
        relaxed = tabled.TRAINING if self.config.relaxed else tabled.Aggregation.answering(self.semiring)
        return self._scores(batch, relaxed)

    @torch.no_grad()
    def scores(self, batch: Batch) -> Float[Tensor, "query target"]:
        """As the model answers."""
        return self._scores(batch, tabled.Aggregation.answering(self.semiring))

    def _scores(self, batch: Batch, aggregation: tabled.Aggregation) -> Float[Tensor, "query target"]:
        if isinstance(batch, SteppedBatch):
            closed = tabled.close(self.theory, aggregation.rules, self._attention)
            return tabled.prove(batch, closed, aggregation)[:, self.target_ids]
        goals = self.theory.vectors[self.target_ids]
        levels = exact.grow(self.theory, goals, len(batch.layers) - 1, self.semiring)
        return exact.prove(batch, levels, self.semiring)

    def exact_depth(self, num_edges: int) -> int:
        """One more than a balanced chain of that many facts needs, if it is not too deep for the recursion.

        At the least depth every chain must fall into halves, which often mean nothing by themselves.
        """
        longest = max((template.length for template in self.theory.templates), default=1)
        needed = num_edges if longest == 1 else math.ceil(math.log(max(2, num_edges), longest) - 1e-9)
        return max(1, min(MAX_EXACT_DEPTH, needed + 1))

    @property
    def _attention(self) -> bool:
        return self.config.select == "attentive"

    # One question

    @torch.no_grad()
    def explain(self, asked: AskedGraph, budget: Budget) -> Explanation:
        """Every candidate with a score above 0, or the one that was asked for; proofs for the best `top_k`."""
        proved = self._prove(asked, budget)
        names = self.targets if asked.predicate is None else (asked.predicate,)
        found = [
            (float(proved.scores[row, self.predicates.id(name)]), row, name)
            for row in range(len(asked.pairs))
            for name in names
        ]
        kept = sorted((f for f in found if f[0] > 0 or asked.closed), key=lambda f: -f[0])
        truncated, items = proved.truncated, []
        for rank, (score, row, name) in enumerate(kept):
            wanted = asked.question.proofs if rank < _shown(asked) and score > 0 else 0
            proofs, cut = self._proofs(proved, row, name, wanted, budget)
            truncated |= cut
            items.append(Explained(asked.fact(asked.pairs[row], name), min(1.0, score), proofs))
        return Explanation(tuple(items), truncated)

    def _prove(self, asked: AskedGraph, budget: Budget) -> _Proved:
        instance = Instance.of(asked.graph, self.predicates, asked.pairs)
        depth = self.config.depth if asked.question.depth is None else asked.question.depth
        return (self._prove_tabled if self.config.prover == "tabled" else self._prove_exact)(
            asked, instance, depth, budget
        )

    def _prove_tabled(self, asked: AskedGraph, instance: Instance, depth: int | None, budget: Budget) -> _Proved:
        chart = self.tabled.fresh_chart(instance.shape, depth)
        batch = stack_stepped([instance], {instance.shape: chart}, self.device)
        theory = self.closed
        aggregation = tabled.Aggregation.answering(self.semiring)
        found = tabled.tables(batch, theory, aggregation, lambda: budget.expired, keep_levels=depth is not None)
        scores = tabled.with_goal_facts(found.last[batch.query_rows], found.facts[batch.query_rows], theory)
        level = -1 if depth is None else len(found.levels) - 1
        since = found.since.cpu().numpy() if depth is None else None
        arrays = [table.cpu().numpy() for table in found.levels]
        space = TabledSpace(chart, theory, arrays, self.fold, max(1, asked.question.proofs), since)
        place, name = tabled_names(chart.pairs, self.predicates)
        writer = ProofWriter(self.predicates, asked.entities, self.fold, place, name)
        rows = batch.query_rows.tolist()

        def goal(pair: int, predicate: int) -> TabledGoal:
            return TabledGoal(rows[pair], predicate, level, root=True)

        return _Proved(scores, space, goal, writer, found.truncated)

    def _prove_exact(self, asked: AskedGraph, instance: Instance, depth: int | None, budget: Budget) -> _Proved:
        """Deeper and deeper, so that there is an answer whenever time or memory end; the last depth is most of it."""
        wanted = self.exact_depth(len(instance.shape.edges)) if depth is None else depth
        proved = self._exact_to(0, asked, instance, Budget())
        assert proved is not None  # facts alone take no time
        for deeper in range(1, min(wanted, DEEPEST_ASKED) + 1):
            found = None if budget.expired else self._exact_to(deeper, asked, instance, budget)
            if found is None:
                return replace(proved, truncated=True)
            proved = found
        return replace(proved, truncated=wanted > DEEPEST_ASKED)

    def _exact_to(self, depth: int, asked: AskedGraph, instance: Instance, budget: Budget) -> _Proved | None:
        """Nothing where the budget ends first, or where tables would grow out of memory."""
        chart = self.exact.fresh_chart(instance.shape, depth)
        batch = stack_layered([instance], {instance.shape: chart}, self.device)
        if exact.largest_table(batch, self._settled, len(self.predicates)) > MAX_EXACT_CELLS:
            return None
        levels = exact.grow(self._settled, self._settled.vectors, depth, self.semiring)
        found = exact.tables_in_time(batch, levels, self.semiring, lambda: budget.expired)
        if found is None:
            return None
        place, name = exact_names([layer.pairs for layer in chart.layers], levels, self.predicates)
        writer = ProofWriter(self.predicates, asked.entities, self.fold, place, name)
        rows = batch.query_rows.tolist()

        def goal(pair: int, predicate: int) -> ExactGoal:
            return ExactGoal(0, rows[pair], predicate)

        scores = found[0][batch.query_rows].clamp(min=0.0)
        return _Proved(scores, ExactSpace(batch, levels, found, self.fold), goal, writer, truncated=False)

    @cached_property
    def _settled(self) -> Theory:
        """As it answers: it does not change any more, and is in double precision, so that a score is its proof's."""
        return copy.deepcopy(self.theory).double()

    @cached_property
    @torch.no_grad()
    def closed(self) -> tabled.TabledTheory:
        return tabled.close(self._settled, self.semiring, self._attention)

    def _proofs(
        self, proved: _Proved, pair: int, name: str, wanted: int, budget: Budget
    ) -> tuple[tuple[Proof, ...], bool]:
        """The best distinct proofs; equal ones by fewer facts, then by text."""
        if not wanted:
            return (), False
        search = Search(proved.space, self.fold, lambda: budget.expired)
        found: dict[Any, Proof] = {}
        for derivation in islice(search.proofs(proved.goal(pair, self.predicates.id(name))), 20 * wanted + TIES):
            proof = Proof(proved.writer.write(derivation))
            found.setdefault(_identity(proof), proof)
            if len(found) >= wanted + TIES or (len(found) > wanted and proof.score < _nth(found, wanted)):
                break
        ranked = sorted(found.values(), key=lambda p: (-p.score, len(p.facts), p.text))
        return tuple(ranked[:wanted]), search.truncated


def _shown(asked: AskedGraph) -> int:
    # Known facts may be left out later; those behind them then move up and need their proofs too.
    extra = len(asked.stated) if asked.question.exclude_known else 0
    return asked.question.top_k + extra


def _nth(found: dict[Any, Proof], n: int) -> float:
    return sorted((proof.score for proof in found.values()), reverse=True)[n - 1]


def _identity(proof: Proof) -> tuple[Any, ...]:
    return tuple(_rules(proof.tree)), proof.facts


def _rules(node: Any) -> list[str]:
    own = [node.rule.text] if node.rule else []
    return own + [text for child in node.children for text in _rules(child)]
