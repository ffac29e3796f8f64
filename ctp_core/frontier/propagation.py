"""From the entities of some questions, step by step, to the most promising entities."""

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ctp_core.frontier.config import FrontierConfig
from ctp_core.frontier.graph import ANSWERING, Graph
from ctp_core.frontier.network import FrontierNetwork, Links
from ctp_core.shapes import Float, Int, Tensor


class Asked(NamedTuple):
    """Questions (entity, atom, ?)."""

    entity: Int[Tensor, " question"]
    atom: Int[Tensor, " question"]


@dataclass(frozen=True)
class Step:
    """One step as it was taken: its edges, its nodes, and which of them went on."""

    edge: Int[Tensor, " edge"]
    source: Int[Tensor, " edge"]  # among the nodes that the step before kept
    target: Int[Tensor, " edge"]
    stayed: Int[Tensor, " before"]
    question: Int[Tensor, " node"]
    entity: Int[Tensor, " node"]
    kept: Int[Tensor, " kept"]  # among the nodes


@dataclass(frozen=True)
class Reached:
    """What was found: (question · entities + entity), each once and sorted, with what it adds to the logit."""

    key: Int[Tensor, " reached"]
    gain: Float[Tensor, " reached"]
    steps: tuple[Step, ...]  # none unless asked for


def propagate(
    network: FrontierNetwork,
    graph: Graph,
    asked: Asked,
    config: FrontierConfig,
    phase: float = ANSWERING,
    *,
    traced: bool = False,
) -> Reached:
    """Takes all steps; an entity that is dropped on the way keeps what it had added by then."""
    size, device = graph.num_entities, graph.device
    question, entity = torch.arange(len(asked.entity), device=device), asked.entity
    hidden = network.begin(asked.atom)
    promise = network.gains(hidden, asked.atom)
    left: list[tuple[Tensor, Tensor]] = []
    steps = []
    for number, layer in enumerate(network.layers, 1):
        edges = graph.follow(question, entity, config.facts_per_step, phase)
        before = question * size + entity
        ahead = question[edges.source] * size + graph.head[edges.edge]
        key, place = torch.unique(torch.cat([before, ahead]), return_inverse=True)
        stayed, target = place.split([len(before), len(ahead)])
        links = Links(
            edges.source, graph.atom[edges.edge], target, torch.arange(len(before), device=device), stayed, len(key)
        )
        weight = weights(layer, hidden, promise, asked.atom[question], links)
        hidden = layer(hidden, weight, links)
        question, entity = key // size, key % size
        promise = network.gains(hidden, asked.atom[question])
        kept = torch.arange(len(key), device=device)
        if number < len(network.layers):
            kept = _best(question, promise.detach(), config.width)
        if traced:
            steps.append(Step(edges.edge, edges.source, target, stayed, question, entity, kept))
        left.append((key, promise))
        if len(kept) < len(key):
            question, entity, hidden, promise = question[kept], entity[kept], hidden[kept], promise[kept]
    return Reached(*_latest(left), tuple(steps))


def weights(
    layer: "torch.nn.Module",
    hidden: Float[Tensor, "before dim"],
    promise: Float[Tensor, " before"],
    atoms: Int[Tensor, " before"],
    links: Links,
) -> Float[Tensor, " edge"]:
    """Attention to each edge, times how promising it was to go on from its source."""
    return layer.attention(hidden, atoms, links) * torch.sigmoid(promise)[links.source]  # type: ignore[no-any-return,operator]


def _best(question: Int[Tensor, " node"], promise: Float[Tensor, " node"], width: int) -> Int[Tensor, " kept"]:
    """The most promising nodes of each question, in order; of equals the first."""
    counts = torch.bincount(question)
    if int(counts.max()) <= width:
        return torch.arange(len(question), device=question.device)
    by_promise = torch.argsort(-promise, stable=True)
    order = by_promise[torch.argsort(question[by_promise], stable=True)]
    rank = torch.arange(len(order), device=order.device) - (torch.cumsum(counts, 0) - counts)[question[order]]
    return torch.sort(order[rank < width]).values


def _latest(left: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Each key once, with the gain that it was given last."""
    key, gain = (torch.cat(column) for column in zip(*left, strict=True))
    distinct, place = torch.unique(key, return_inverse=True)
    order = torch.arange(len(key), device=key.device)
    last = torch.zeros_like(distinct).scatter_reduce(0, place, order, "amax")
    return distinct, gain[last]


def logits(network: FrontierNetwork, graph: Graph, asked: Asked, reached: Reached) -> Float[Tensor, "question entity"]:
    """The logits of all entities."""
    base = network.base(asked.atom[:, None], graph.commonness(asked.atom))
    return base.flatten().index_add(0, reached.key, reached.gain).view_as(base)
