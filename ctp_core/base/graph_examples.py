"""Graphs as examples: what is learnt from, what says how well, and how much each graph counts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ctp_core.base.graphs_model import GraphScorer
from ctp_core.base.unknown_facts import usable
from ctp_core.kb.graphs import fault
from ctp_core.kb.isomorphism import CanonicalGraph, WeightedGraph, canonical, distinct, number
from ctp_core.kb.knowledge_base import Graph
from ctp_core.shapes import Float, Tensor
from ctp_core.symbols import Vocabulary

SCORED_AT_ONCE = 64  # graphs: of ten facts each, their tables take about 250 MB in the exact prover
MIN_HELD_OUT = 20  # with fewer graphs than this, none can be spared for validation
SHORTEST_COMPOSITION = 2  # edges: such a graph is what a rule is learnt from, and no other graph says what it means


@dataclass(frozen=True)
class Examples:
    """Graphs as their scorer sees them, the distribution of their labels, and how much each counts.

    A label that is no target of the scorer, because no training graph has it, has no column: nobody can get it right.
    """

    instances: list[Any]
    labels: Float[Tensor, "graph target"]
    weights: Float[Tensor, " graph"]

    @classmethod
    def of(cls, graphs: Sequence[WeightedGraph], scorer: GraphScorer, power: float) -> "Examples":
        ids = {name: i for i, name in enumerate(scorer.targets)}
        counts, total = torch.zeros(len(graphs), len(ids), device="cpu"), torch.zeros(len(graphs), device="cpu")
        for row, graph in enumerate(graphs):
            for label, count in graph.labels:
                total[row] += count
                if label in ids:
                    counts[row, ids[label]] = count
        counts, total = counts.to(scorer.device), total.to(scorer.device)
        weights = total**power
        instances = [scorer.instance(graph.graph) for graph in graphs]
        return cls(instances, counts / total[:, None], weights / weights.mean() if len(graphs) else weights)


def stacked(examples: Examples, scorer: GraphScorer, depth: int | None) -> list[Any]:
    """The graphs in batches that fit into memory, in their order."""
    starts = range(0, len(examples.instances), SCORED_AT_ONCE)
    return [scorer.stack(examples.instances[start : start + SCORED_AT_ONCE], depth) for start in starts]


def understood(graphs: Iterable[Graph], predicates: Vocabulary) -> list[Graph]:
    """Graphs without facts of unknown predicates, as a question is read; leaves out those that lose their pair."""
    known = (replace(graph, facts=usable(graph.facts, predicates)) for graph in graphs)
    return [graph for graph in known if fault(graph) is None]


def read_graphs(graphs: Iterable[Graph], merge: bool) -> list[WeightedGraph]:
    """Distinct graphs with the counts of their labels, or every row for itself."""
    if merge:
        return distinct(graphs)
    return [WeightedGraph(canonical(number(g)[0]), ((g.label, 1),)) for g in graphs if g.label is not None]


def hold_out(graphs: list[WeightedGraph], share: float, seed: int) -> tuple[list[WeightedGraph], list[WeightedGraph]]:
    """(train, valid): some of the longest graphs, because it is on long ones that a model will be tried.

    At most half of the graphs of a length, then those that are shorter, but none that no others could teach: a
    validation that cannot be passed prefers whoever is least sure. A graph and its copies stay together.
    """
    count = int(share * len(graphs))
    if count == 0 or len(graphs) < MIN_HELD_OUT:
        return graphs, []
    copies, chosen = Counter(weighted.graph for weighted in graphs), set[CanonicalGraph]()
    for graph in _longest_first(copies, torch.Generator(device="cpu").manual_seed(seed)):
        chosen.add(graph)
        count -= copies[graph]
        if count <= 0:
            break
    return [g for g in graphs if g.graph not in chosen], [g for g in graphs if g.graph in chosen]


def _longest_first(graphs: Iterable[CanonicalGraph], generator: torch.Generator) -> Iterator[CanonicalGraph]:
    """Half of the graphs of each length beyond the shortest composition, in random order."""
    by_length: dict[int, list[CanonicalGraph]] = defaultdict(list)
    for graph in graphs:
        by_length[len(graph.edges)].append(graph)
    for length in sorted((length for length in by_length if length > SHORTEST_COMPOSITION), reverse=True):
        some = by_length[length]
        order = torch.randperm(len(some), generator=generator, device="cpu").tolist()
        yield from (some[i] for i in order[: len(some) // 2])


def accuracy(scores: Float[Tensor, "graph target"], examples: Examples) -> float:
    """The share of rows whose label gets the best score: of k equal ones the k-th part, and nothing where all are 0."""
    best = (scores == scores.amax(dim=1, keepdim=True)) & (scores > 0)
    right = (examples.labels * best).sum(dim=1) / best.sum(dim=1).clamp(min=1)
    return float((right * examples.weights).sum() / examples.weights.sum())
