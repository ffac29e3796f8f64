"""Answers one question about one graph with proofs, by the model's prover, as far as time allows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch

from ctp_core.base.deadline import Expired, OutOfTime, never
from ctp_core.base.graphs_model import AskedGraph, ranked
from ctp_core.base.model import Answer, Answers, Budget
from ctp_core.ctp_graphs import exact, tabled
from ctp_core.ctp_graphs.batches import Instance, stack_layered, stack_stepped
from ctp_core.ctp_graphs.exact_proofs import ExactGoal, ExactSpace
from ctp_core.ctp_graphs.proofs import Name, Place, ProofWriter, exact_names, tabled_names
from ctp_core.ctp_graphs.reasoner import DEEPEST_ASKED, MAX_EXACT_CELLS, GraphReasoner
from ctp_core.ctp_graphs.search import Search, Space
from ctp_core.ctp_graphs.tabled_proofs import TabledGoal, TabledSpace
from ctp_core.proofs import Proof
from ctp_core.shapes import Float, Tensor

TIES = 32  # proofs read beyond those wanted, so that equal scores can be sorted
FIRST_PROOFS = 10  # answers that get their best proof even after the time is over
TIME_TO_PROVE = 0.8  # share of the time; the rest is for reading proofs back
MAX_EDGES_LOOKED_AT = 100  # edges; for larger graphs no chart is built just to find how deep proofs can be
REPEATED = 20  # derivations read for each proof wanted: several reformulators may give the same proof


@dataclass(frozen=True)
class _Proved:
    """Scores [pair, predicate] of one graph, and the space in which their proofs lie."""

    scores: Float[Tensor, "pair predicate"]
    space: Space
    goal: Callable[[int, int], Any]  # (pair, predicate) -> the root of its proofs
    writer: ProofWriter
    truncated: bool


@torch.no_grad()
def explain(reasoner: GraphReasoner, asked: AskedGraph, budget: Budget, listed: Mapping[str, float]) -> Answers:
    """The best `top_k` candidates with a score above 0, or the one that was asked for, each with its proofs.

    `listed` are the confidences of the model's rules by their texts.
    """
    explainer = _Explainer(reasoner, asked, budget, listed)
    proved = explainer.prove()
    names = reasoner.targets if asked.predicate is None else (asked.predicate,)
    rows = {asked.fact(pair, name): row for row, pair in enumerate(asked.pairs) for name in names}
    scores = proved.scores.tolist()
    candidates = [
        Answer(fact, min(1.0, scores[row][reasoner.predicates.id(fact.predicate)]), fact in asked.stated)
        for fact, row in rows.items()
    ]
    truncated, items = proved.truncated, []
    best = ranked(asked.question, (c for c in candidates if c.score > 0 or asked.closed))
    for place, answer in enumerate(best):
        wanted = asked.question.proofs if answer.score > 0 else 0
        goal = proved.goal(rows[answer.fact], reasoner.predicates.id(answer.fact.predicate))
        proofs, cut = explainer.proofs(proved, goal, wanted, at_least_one=place < FIRST_PROOFS)
        truncated |= cut
        items.append(replace(answer, proofs=proofs))
    return Answers(tuple(items), truncated, asked.warnings)


class _Explainer:
    def __init__(self, reasoner: GraphReasoner, asked: AskedGraph, budget: Budget, listed: Mapping[str, float]) -> None:
        self.reasoner, self.asked, self.budget, self.listed = reasoner, asked, budget, listed
        self.instance = Instance.of(asked.graph, reasoner.predicates, asked.pairs)

    def prove(self) -> _Proved:
        depth = self.reasoner.config.depth if self.asked.question.depth is None else self.asked.question.depth
        return self._in_time(depth) if self.reasoner.config.prover == "tabled" else self._deeper(depth)

    def _expired(self) -> bool:
        return self.budget.used(TIME_TO_PROVE)

    # Tabled

    def _in_time(self, depth: int | None) -> _Proved:
        """Proves by rules; by facts alone where the time is over before the chart is built."""
        try:
            return self._tabled(depth, self._expired)
        except OutOfTime:
            return replace(self._tabled(0, never), truncated=True)

    def _tabled(self, depth: int | None, expired: Expired) -> _Proved:
        reasoner, instance = self.reasoner, self.instance
        chart = reasoner.tabled.fresh_chart(instance.shape, depth, expired)
        batch = stack_stepped([instance], {instance.shape: chart}, reasoner.device)
        theory, aggregation = reasoner.closed, tabled.Aggregations.answering(reasoner.tnorm)
        found = tabled.tables(batch, theory, aggregation, expired, keep_levels=chart.levels)
        scores = tabled.with_goal_facts(found.last[batch.query_rows], found.facts[batch.query_rows], theory)
        reached = len(found.levels.at) - 1 if found.truncated else depth
        level = -1 if reached is None or not chart.levels else reached
        space = TabledSpace(chart, theory, found, reasoner.tnorm, max(1, self.asked.question.proofs))
        place, name = tabled_names(chart.pairs, reasoner.predicates)
        rows = batch.query_rows.tolist()

        def goal(pair: int, predicate: int) -> TabledGoal:
            return TabledGoal(rows[pair], predicate, level, root=True)

        return _Proved(scores, space, goal, self._writer(place, name, reasoner.attention), found.truncated)

    # Exact

    def _deeper(self, depth: int | None) -> _Proved:
        """Proves deeper and deeper, so that there is an answer when time or memory end; the last depth costs most."""
        wanted = self.reasoner.exact_depth(len(self.instance.shape.edges)) if depth is None else depth
        wanted = self._needed(wanted)
        proved = self._exact(0, never)
        assert proved is not None  # facts alone take no time
        for deeper in range(1, min(wanted, DEEPEST_ASKED) + 1):
            found = None if self._expired() else self._exact(deeper, self._expired)
            if found is None:
                return replace(proved, truncated=True)
            proved = found
        return replace(proved, truncated=wanted > DEEPEST_ASKED)

    def _needed(self, wanted: int) -> int:
        """Lowers the depth to that of the deepest possible proof: a chain of three facts needs only two."""
        shape = self.instance.shape
        if len(shape.edges) > MAX_EDGES_LOOKED_AT or wanted > DEEPEST_ASKED:
            return wanted
        try:
            layers = self.reasoner.exact.fresh_chart(shape, wanted, self._expired).layers
        except OutOfTime:
            return wanted
        return sum(any(len(ways.targets) for ways in layer.ways) for layer in layers)

    def _exact(self, depth: int, expired: Expired) -> _Proved | None:
        """Proves to one depth; None where time runs out or the tables would not fit into memory."""
        reasoner, theory, asked = self.reasoner, self.reasoner.settled, self._asked_predicates()
        try:
            chart = reasoner.exact.fresh_chart(self.instance.shape, depth, expired)
        except OutOfTime:
            return None
        batch = stack_layered([self.instance], {self.instance.shape: chart}, reasoner.device)
        if exact.largest_table(batch, theory, len(asked)) > MAX_EXACT_CELLS:
            return None
        try:
            levels = exact.grow(theory, theory.vectors[asked], depth, reasoner.best, expired)
        except OutOfTime:
            return None
        found = exact.tables_in_time(batch, levels, reasoner.best, expired)
        if found is None:
            return None
        place, name = exact_names([layer.pairs for layer in chart.layers], levels, reasoner.predicates)
        rows = batch.query_rows.tolist()

        def goal(pair: int, predicate: int) -> ExactGoal:
            return ExactGoal(0, rows[pair], asked.index(predicate))

        scores = found[0].new_zeros(len(rows), len(reasoner.predicates))
        scores[:, asked] = found[0][batch.query_rows].clamp(min=0.0)
        return _Proved(
            scores, ExactSpace(batch, levels, found, reasoner.tnorm), goal, self._writer(place, name), truncated=False
        )

    def _asked_predicates(self) -> list[int]:
        """Ids of the predicates to prove; only those asked for, because sub-goals multiply with each."""
        names = self.reasoner.targets if self.asked.predicate is None else (self.asked.predicate,)
        return [self.reasoner.predicates.id(name) for name in names]

    # Either

    def _writer(self, place: Place, name: Name, attention: bool = False) -> ProofWriter:
        known = self.reasoner.predicates, self.asked.entities, self.reasoner.tnorm
        return ProofWriter(*known, place, name, attention, self.listed)

    def proofs(self, proved: _Proved, goal: Any, wanted: int, at_least_one: bool) -> tuple[tuple[Proof, ...], bool]:
        """The best distinct proofs, and whether some may be missing. Equal scores: fewer facts first, then by text."""
        if not wanted:
            return (), False
        found: dict[Any, Proof] = {}

        def expired() -> bool:
            return (bool(found) or not at_least_one) and self.budget.expired

        search = Search(proved.space, self.reasoner.tnorm, expired)
        derivations = search.proofs(goal)
        enough = False
        for derivation in islice(derivations, REPEATED * wanted + TIES):
            proof = Proof(proved.writer.write(derivation))
            found.setdefault(_identity(proof), proof)
            enough = len(found) >= wanted + TIES or (len(found) > wanted and proof.score < _nth(found, wanted))
            if enough:
                break
        ranked = sorted(found.values(), key=lambda p: (-p.score, len(p.facts), p.text))
        missing = not enough and len(ranked) < wanted and next(derivations, None) is not None
        return tuple(ranked[:wanted]), search.truncated or missing


def _nth(found: dict[Any, Proof], n: int) -> float:
    return sorted((proof.score for proof in found.values()), reverse=True)[n - 1]


def _identity(proof: Proof) -> tuple[Any, ...]:
    """The rules and facts of the tree, parents first; a rule determines how many children follow."""
    found, stack = [], [proof.tree]
    while stack:
        node = stack.pop()
        found.append(node.rule.text if node.rule is not None else node.fact)
        stack.extend(reversed(node.children))
    return tuple(found)
