"""Graphs as examples: what is learnt from, what says how well, and how much each graph counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ctp_core.datasets.isomorphism import WeightedGraph, canonical, distinct, number
from ctp_core.datasets.kb import Graph
from ctp_core.models.graph_scorer import GraphScorer
from ctp_core.shapes import Float, Tensor

MIN_HELD_OUT = 20  # with fewer graphs than this, none can be spared for validation


@dataclass(frozen=True)
class Examples:
    """Graphs as their scorer sees them, the distribution of their labels, and how much each counts."""

    instances: list[Any]
    labels: Float[Tensor, "graph target"]
    weights: Float[Tensor, " graph"]

    @classmethod
    def of(cls, graphs: Sequence[WeightedGraph], scorer: GraphScorer, power: float) -> "Examples":
        ids = {name: i for i, name in enumerate(scorer.targets)}
        counts = torch.zeros(len(graphs), len(ids), device=scorer.device)
        for row, graph in enumerate(graphs):
            for label, count in graph.labels:
                counts[row, ids[label]] = count
        total = counts.sum(dim=1)
        weights = total**power
        instances = [scorer.instance(graph.graph) for graph in graphs]
        return cls(instances, counts / total[:, None], weights / weights.mean() if len(graphs) else weights)


def read_graphs(graphs: Sequence[Graph], merge: bool) -> list[WeightedGraph]:
    """Distinct graphs with the counts of their labels, or every row for itself."""
    if merge:
        return distinct(graphs)
    return [WeightedGraph(canonical(number(g)[0]), ((g.label, 1),)) for g in graphs if g.label is not None]


def hold_out(graphs: list[WeightedGraph], share: float, seed: int) -> tuple[list[WeightedGraph], list[WeightedGraph]]:
    """(train, valid): some of the longest graphs, because it is on long ones that a model will be tried."""
    longest = max(len(graph.graph.edges) for graph in graphs)
    candidates = [i for i, graph in enumerate(graphs) if len(graph.graph.edges) == longest]
    count = int(share * len(graphs))
    if count == 0 or len(graphs) < MIN_HELD_OUT or len(candidates) < 2 * count:
        return graphs, []
    order = torch.randperm(len(candidates), generator=torch.Generator(device="cpu").manual_seed(seed), device="cpu")
    chosen = {candidates[i] for i in order[:count].tolist()}
    return [g for i, g in enumerate(graphs) if i not in chosen], [graphs[i] for i in sorted(chosen)]


def accuracy(scores: Float[Tensor, "graph target"], examples: Examples) -> float:
    """The share of rows whose label gets the best score; equal scores go to the first target."""
    right = examples.labels.gather(1, scores.argmax(dim=1, keepdim=True))[:, 0]
    return float((right * examples.weights).sum() / examples.weights.sum())
