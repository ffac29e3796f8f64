"""Graphs as tensors, facts in the order of a walk from the goal's subject, and the base of networks that read them."""

import zlib
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ctp_core.kb.isomorphism import CanonicalGraph, Edge
from ctp_core.shapes import Bool, Float, Int, Tensor
from ctp_core.symbols import Vocabulary

PAD = -1


@dataclass(frozen=True)
class NumberedGraph:
    """A graph and the pair asked about. Entities are numbered in the order in which the walk meets them."""

    facts: NDArray[np.int64]  # [fact, 3]: entity, predicate, entity
    goal: tuple[int, int]
    num_entities: int

    @classmethod
    def of(cls, graph: CanonicalGraph, predicates: Vocabulary) -> "NumberedGraph":
        """Walks the graph and numbers it; raises UnknownSymbol for a predicate that was not in training."""
        edges = walk(graph)
        met = dict.fromkeys([graph.query[0], *(entity for edge in edges for entity in (edge[0], edge[2]))])
        number = {entity: i for i, entity in enumerate([*met, *({*range(graph.num_entities)} - {*met})])}
        facts = [(number[a], predicates.id(predicate), number[b]) for a, predicate, b in edges]
        goal = (number[graph.query[0]], number[graph.query[1]])
        return cls(np.array(facts, dtype=np.int64).reshape(-1, 3), goal, graph.num_entities)

    def names(self, num_names: int, few: bool) -> NDArray[np.int64]:
        """Draws a name for each entity as in training, but seeded by the graph: equal graphs get equal names.

        Where there are more entities than names, several entities share one.
        """
        draw = np.random.default_rng(zlib.crc32(self.facts.tobytes() + np.array(self.goal).tobytes()))
        drawn = draw.permutation(min(num_names, self.num_entities) if few else num_names)
        return np.resize(drawn, self.num_entities)


def walk(graph: CanonicalGraph) -> list[Edge]:
    """Orders the facts so that each begins where the one before ended, if one walk can use every fact once.

    The walk starts at the goal's subject. Where one walk is not enough, joins as many as it takes. Follows a fact
    against its direction only where no other leads on.
    """
    ways: dict[int, list[Edge]] = defaultdict(list)  # stacks: the last edge is taken first
    by_predicate = sorted(graph.edges, key=lambda edge: (edge[1], edge), reverse=True)
    for edge in by_predicate:
        ways[edge[2]].append(edge)
    for edge in by_predicate:
        ways[edge[0]].append(edge)
    unused = {*graph.edges}
    return [edge for start in (graph.query[0], *range(graph.num_entities)) for edge in _walk_from(start, ways, unused)]


def _walk_from(start: int, ways: dict[int, list[Edge]], unused: set[Edge]) -> list[Edge]:
    """Walks by Hierholzer's algorithm, which puts the first dead end last. Removes the facts it uses from `unused`."""
    finished: list[Edge] = []
    path: list[tuple[int, Edge | None]] = [(start, None)]
    while path:
        entity, came_by = path[-1]
        edge = ways[entity].pop() if ways[entity] else None
        if edge is None:
            path.pop()
            finished += [came_by] if came_by else []
        elif edge in unused:
            unused.remove(edge)
            path.append((edge[0] if edge[2] == entity else edge[2], edge))
    return finished[::-1]


@dataclass(frozen=True)
class GraphRows:
    """A batch with one row for each pair asked about. Rows with fewer facts are filled up with `PAD`.

    Entities are numbered within their graph; `names` says which of the learnt vectors stands for each.
    """

    facts: Int[Tensor, "query fact 3"]
    goals: Int[Tensor, "query 2"]
    num_entities: Int[Tensor, " query"]
    names: Int[Tensor, "query entity"]

    @property
    def present(self) -> Bool[Tensor, "query fact"]:
        return self.facts[:, :, 1] != PAD

    @property
    def named_facts(self) -> Int[Tensor, "query fact 3"]:
        """The facts, with the name of each entity in place of its number."""
        facts = self.facts.clone()
        for place in (0, 2):
            named = self.names.gather(1, self.facts[:, :, place].clamp(min=0))
            facts[:, :, place] = torch.where(self.present, named, PAD)
        return facts

    @property
    def named_goals(self) -> Int[Tensor, "query 2"]:
        return self.names.gather(1, self.goals)

    def __getitem__(self, rows: Int[Tensor, " query"]) -> "GraphRows":
        """Selects rows and cuts off the padding that none of them needs."""
        facts, sizes = self.facts[rows], self.num_entities[rows]
        longest = int((facts[:, :, 1] != PAD).sum(dim=1).max())
        return GraphRows(facts[:, :longest], self.goals[rows], sizes, self.names[rows, : int(sizes.max())])

    def with_names(self, num_names: int, few: bool, generator: torch.Generator) -> "GraphRows":
        """Draws random names for every row. With `few`, a row of n entities uses only the first n names."""
        keys = torch.rand(len(self.goals), num_names, generator=generator, device="cpu").to(self.goals.device)
        if few:  # moves the names beyond a row's number of entities to the end
            keys = keys + (torch.arange(num_names, device=keys.device) >= self.num_entities[:, None])
        places = torch.arange(self.names.shape[1], device=keys.device) % num_names
        return replace(self, names=keys.argsort(dim=1)[:, places])


def stack_rows(graphs: Sequence[NumberedGraph], num_names: int, few: bool, device: torch.device) -> GraphRows:
    """Stacks graphs into one batch, each with its fixed names (`NumberedGraph.names`)."""
    sizes = np.array([graph.num_entities for graph in graphs])
    facts = np.full((len(graphs), max(len(graph.facts) for graph in graphs), 3), PAD, dtype=np.int64)
    names = np.zeros((len(graphs), sizes.max()), dtype=np.int64)
    for row, graph in enumerate(graphs):
        facts[row, : len(graph.facts)] = graph.facts
        names[row, : graph.num_entities] = graph.names(num_names, few)
    goals = np.array([graph.goal for graph in graphs], dtype=np.int64)
    return GraphRows(*(torch.as_tensor(array, device=device) for array in (facts, goals, sizes, names)))


class GraphNetwork(nn.Module, ABC):
    """Base of all networks: gives the logits of all targets for every row of a batch."""

    @abstractmethod
    def forward(self, rows: GraphRows) -> Float[Tensor, "query target"]: ...
