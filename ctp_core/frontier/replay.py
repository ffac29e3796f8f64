"""Takes the steps of questions again for some answers alone: along what leads to them, perhaps without some facts.

Which entities were kept is as it was, so that only the part of a propagation that an answer rests on is computed.
"""

from dataclasses import dataclass

import torch

from ctp_core.frontier.graph import Graph
from ctp_core.frontier.network import FrontierNetwork, Links
from ctp_core.frontier.propagation import Asked, Step, weights
from ctp_core.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class Traced:
    """Questions that were asked, and the steps that were taken."""

    asked: Asked
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Wanted:
    """Answers to be scored: `row` is that of the question; each without the facts that are `removed` for it."""

    row: Int[Tensor, " item"]
    answer: Int[Tensor, " item"]
    removed_item: Int[Tensor, " removed"]
    removed_fact: Int[Tensor, " removed"]  # as in Graph.fact


@dataclass(frozen=True)
class Part:
    """The part of one step that leads to the answers; nodes are numbered within the part."""

    item: Int[Tensor, " node"]
    edge: Int[Tensor, " edge"]
    source: Int[Tensor, " edge"]
    target: Int[Tensor, " edge"]
    staying: Int[Tensor, " staying"]
    stayed: Int[Tensor, " staying"]
    weight: Float[Tensor, " edge"]


@dataclass(frozen=True)
class Replayed:
    """`gain` of each answer, 0 where nothing leads to it; `end` is its (step, node), step 0 where it is not reached."""

    gain: Float[Tensor, " item"]
    end_step: Int[Tensor, " item"]
    end_node: Int[Tensor, " item"]
    parts: tuple[Part, ...]  # of the steps from 1


@dataclass(frozen=True)
class _Cut:
    """What of a step is needed: its nodes, and the edges and stays that lead to them."""

    item: Int[Tensor, " node"]
    node: Int[Tensor, " node"]  # among the nodes of the step
    edge: Int[Tensor, " edge"]  # among the edges of the step
    target: Int[Tensor, " edge"]  # among the nodes of the cut
    stayed: Int[Tensor, " staying"]  # the same
    source: Int[Tensor, " edge"]  # among the nodes of the cut before
    staying: Int[Tensor, " staying"]


def replay(network: FrontierNetwork, graph: Graph, traced: Traced, wanted: Wanted) -> Replayed:
    """The gains of some answers, each by the steps that lead to it, without what is removed for it."""
    end_step, end_place = _ends(graph, traced.steps, wanted)
    cuts = _cuts(traced.steps, wanted.row, end_step, end_place)
    items = torch.arange(len(wanted.row), device=graph.device)
    atoms = traced.asked.atom[wanted.row]
    hidden, alive = network.begin(atoms), torch.ones(len(items), dtype=torch.bool, device=graph.device)
    promise = network.gains(hidden, atoms)
    gain, end_node = torch.zeros(len(items), device=graph.device), torch.zeros_like(items)
    owner, parts, step_of_end = items, [], torch.zeros_like(items)
    for number, (layer, step, cut) in enumerate(zip(network.layers, traced.steps, cuts, strict=True), 1):
        edge = step.edge[cut.edge]
        open_ = alive[cut.source] & ~_removed(graph, cut.item[cut.target], edge, wanted)
        stays = alive[cut.staying]
        edge, source, target = edge[open_], cut.source[open_], cut.target[open_]
        staying, stayed = cut.staying[stays], cut.stayed[stays]
        links = Links(source, graph.atom[edge], target, staying, stayed, len(cut.item))
        weight = weights(layer, hidden, promise, atoms[owner], links)
        hidden = layer(hidden, weight, links)
        owner = cut.item
        promise = network.gains(hidden, atoms[owner])
        alive = torch.zeros(len(owner), dtype=torch.bool, device=graph.device)
        alive[target], alive[stayed] = True, True
        parts.append(Part(owner, edge, source, target, staying, stayed, weight))
        ends = torch.nonzero(end_step == number).squeeze(1)
        place = _find(cut.item, cut.node, ends, end_place[ends])
        reached = alive[place]
        gain[ends] = torch.where(reached, promise[place], 0.0)
        end_node[ends], step_of_end[ends] = place, torch.where(reached, number, 0)
    return Replayed(gain, step_of_end, end_node, tuple(parts))


def _ends(graph: Graph, steps: tuple[Step, ...], wanted: Wanted) -> tuple[Tensor, Tensor]:
    """(step, place among its nodes) where each answer was met last; step 0 where it never was."""
    size = graph.num_entities
    key = wanted.row * size + wanted.answer
    step_of, place_of = torch.zeros_like(key), torch.zeros_like(key)
    for number, step in enumerate(steps, 1):
        nodes = step.question * size + step.entity
        place = torch.searchsorted(nodes, key).clamp(max=len(nodes) - 1)
        met = nodes[place] == key
        step_of, place_of = torch.where(met, number, step_of), torch.where(met, place, place_of)
    return step_of, place_of


def _cuts(
    steps: tuple[Step, ...], rows: Int[Tensor, " item"], end_step: Int[Tensor, " item"], end_place: Int[Tensor, " item"]
) -> list[_Cut]:
    """Backwards from the answers: of each step what the next one needs, and the answers that end there."""
    items = torch.arange(len(rows), device=rows.device)
    needed_item, needed_node = items[:0], items[:0]
    found: list[_Cut] = []
    for number in range(len(steps), 0, -1):
        step = steps[number - 1]
        ends = torch.nonzero(end_step == number).squeeze(1)
        item, node = _distinct(torch.cat([needed_item, ends]), torch.cat([needed_node, end_place[ends]]))
        edge, target = _into(step.target, len(step.entity), node)
        before, stayed = _into(step.stayed, len(step.entity), node)
        # The places of sources and of nodes that stay are among those kept by the step before, in rising order.
        source_item, stay_item = item[target], item[stayed]
        kept = steps[number - 2].kept if number > 1 else torch.arange(int(rows.max()) + 1, device=rows.device)
        sources, stays = kept[step.source[edge]], kept[before]
        if number > 1:
            needed_item, needed_node = _distinct(torch.cat([source_item, stay_item]), torch.cat([sources, stays]))
            ends_before = torch.nonzero(end_step == number - 1).squeeze(1)
            all_item, all_node = _distinct(
                torch.cat([needed_item, ends_before]), torch.cat([needed_node, end_place[ends_before]])
            )
            source = _find(all_item, all_node, source_item, sources)
            staying = _find(all_item, all_node, stay_item, stays)
        else:
            source, staying = source_item, stay_item  # before the first step there is one node for each item
        found.append(_Cut(item, node, edge, target, stayed, source, staying))
    return found[::-1]


def _into(targets: Int[Tensor, " edge"], num_nodes: int, nodes: Int[Tensor, " node"]) -> tuple[Tensor, Tensor]:
    """(edge, place among `nodes`) of all edges that lead to these nodes."""
    order = torch.argsort(targets, stable=True)
    bounds = torch.searchsorted(targets[order], torch.arange(num_nodes + 1, device=targets.device))
    first, counts = bounds[nodes], bounds[nodes + 1] - bounds[nodes]
    place = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), counts)
    offset = torch.arange(len(place), device=nodes.device) - (torch.cumsum(counts, 0) - counts)[place]
    return order[first[place] + offset], place


SHIFT = 2**31  # more than a step has nodes


def _distinct(item: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    keys = torch.unique(item * SHIFT + node)
    return keys // SHIFT, keys % SHIFT


def _find(items: Tensor, nodes: Tensor, item: Tensor, node: Tensor) -> Tensor:
    """The places of (item, node) among sorted ones."""
    return torch.searchsorted(items * SHIFT + nodes, item * SHIFT + node)


def _removed(
    graph: Graph, item: Int[Tensor, " edge"], edge: Int[Tensor, " edge"], wanted: Wanted
) -> Bool[Tensor, " edge"]:
    facts, number = torch.unique(wanted.removed_fact, return_inverse=True)
    if not len(facts):
        return torch.zeros_like(item, dtype=torch.bool)
    fact = graph.fact[edge]
    place = torch.searchsorted(facts, fact).clamp(max=len(facts) - 1)
    removed = torch.isin(item * len(facts) + place, wanted.removed_item * len(facts) + number)
    found: Tensor = removed & (facts[place] == fact)
    return found
