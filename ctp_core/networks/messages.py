"""GAT and GCN: entities exchange messages along the facts; each message carries the vector of its predicate.

In PyTorch Geometric's layers of the same names, a predicate can weight a message but not be part of it
(docs/decisions/0034-our-own-message-passing.md). Without predicates, our layers give the same results as those.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from ctp_core.networks.config import Encoding
from ctp_core.networks.rows import PAD, GraphNetwork, GraphRows
from ctp_core.shapes import Float, Int, Tensor

ATTENTION_SLOPE = 0.2  # of the leaky ReLU, as published


@dataclass(frozen=True)
class Edges:
    """The facts of a whole batch, its nodes numbered consecutively. Edges from each node to itself come last."""

    sources: Int[Tensor, " edge"]
    targets: Int[Tensor, " edge"]
    vectors: Float[Tensor, "edge dim"]
    num_nodes: int

    def summed(self, messages: Tensor) -> Tensor:
        """Sums the messages that arrive at each node: [edge, …] -> [node, …]."""
        return messages.new_zeros(self.num_nodes, *messages.shape[1:]).index_add(0, self.targets, messages)


class MessageLayer(nn.Module, ABC):
    """Sends messages [W·x_source ; predicate] along all edges and maps what arrives at each node linearly."""

    def __init__(self, dim: int, edge_dim: int) -> None:
        super().__init__()
        self.update = nn.Linear(dim + edge_dim, dim)

    def forward(self, nodes: Float[Tensor, "node dim"], edges: Edges) -> Float[Tensor, "node dim"]:
        return self.update(self.arriving(nodes, edges))  # type: ignore[no-any-return]

    @abstractmethod
    def arriving(self, nodes: Float[Tensor, "node dim"], edges: Edges) -> Float[Tensor, "node width"]:
        """The weighted sum of the messages to every node."""


class ConvolutionLayer(MessageLayer):
    """GCN: weights a message by 1 / √(degree of source · degree of target)."""

    def __init__(self, dim: int, edge_dim: int) -> None:
        super().__init__(dim, edge_dim)
        self.weight = nn.Linear(dim, dim, bias=False)

    def arriving(self, nodes: Float[Tensor, "node dim"], edges: Edges) -> Float[Tensor, "node width"]:
        messages = torch.cat([self.weight(nodes)[edges.sources], edges.vectors], dim=1)
        scale = self.degrees(edges).rsqrt()  # no degree is 0: each node has an edge to itself
        return edges.summed((scale[edges.sources] * scale[edges.targets])[:, None] * messages)

    def degrees(self, edges: Edges) -> Float[Tensor, " node"]:
        return edges.summed(edges.vectors.new_ones(len(edges.targets)))


class AttentionLayer(MessageLayer):
    """GAT: each head weights messages by a softmax over those that arrive at one node; heads are averaged."""

    def __init__(self, dim: int, edge_dim: int, heads: int) -> None:
        super().__init__(dim, edge_dim)
        self.heads = heads
        self.weight = nn.Linear(dim, heads * dim, bias=False)
        self.to_target = nn.Parameter(torch.empty(heads, dim))
        self.to_message = nn.Parameter(torch.empty(heads, dim + edge_dim))
        for parameter in (self.to_target, self.to_message):
            nn.init.xavier_uniform_(parameter)

    def arriving(self, nodes: Float[Tensor, "node dim"], edges: Edges) -> Float[Tensor, "node width"]:
        own = self.weight(nodes).unflatten(1, (self.heads, -1))  # [node, head, dim]
        dim = own.shape[2]
        # A message is [own ; vector], and all heads share the vectors, so these need not be copied for each head.
        by_target, by_source = ((own * a).sum(dim=2) for a in (self.to_target, self.to_message[:, :dim]))
        wanted = by_target[edges.targets] + by_source[edges.sources] + edges.vectors @ self.to_message[:, dim:].T
        attention = self._softmax(functional.leaky_relu(wanted, ATTENTION_SLOPE), edges)
        from_nodes = (attention[:, :, None] * own[edges.sources]).mean(dim=1)
        return edges.summed(torch.cat([from_nodes, attention.mean(dim=1)[:, None] * edges.vectors], dim=1))

    @staticmethod
    def _softmax(logits: Float[Tensor, "edge head"], edges: Edges) -> Float[Tensor, "edge head"]:
        """Softmax over the edges that share a target."""
        index = edges.targets[:, None].expand_as(logits)
        highest = logits.new_full((edges.num_nodes, logits.shape[1]), -torch.inf)
        highest = highest.scatter_reduce(0, index, logits.detach(), "amax")
        powers = (logits - highest[edges.targets]).exp()
        return powers / edges.summed(powers)[edges.targets]


class MessageNetwork(GraphNetwork):
    """Applies two layers `rounds` times, then reads off the goal's two entities and the mean of all entities.

    Where the encoding is `joint`, the goal is an edge with a predicate of its own and so takes part in every message.
    """

    def __init__(
        self,
        layers: tuple[MessageLayer, MessageLayer],
        vector_sizes: tuple[int, int],
        sizes: tuple[int, int, int],
        encoding: Encoding,
        rounds: int,
        dropout: float,
    ) -> None:
        super().__init__()
        dim, edge_dim = vector_sizes
        num_names, self.asked, num_targets = sizes
        self.nodes, self.predicates = nn.Embedding(num_names, dim), nn.Embedding(self.asked + 1, edge_dim)
        for table in (self.nodes, self.predicates):
            nn.init.xavier_uniform_(table.weight)
        self.layers = nn.ModuleList(layers)
        self.joint, self.rounds, self.dropout = encoding == "joint", rounds, dropout
        self.projection = nn.Linear(3 * dim, num_targets)

    def forward(self, rows: GraphRows) -> Float[Tensor, "query target"]:
        edges = self._edges(rows)
        nodes = self.nodes(rows.names).flatten(0, 1)  # [query · entity, dim]
        for _ in range(self.rounds):
            nodes = functional.elu(self.layers[0](self._dropped(nodes), edges))
            nodes = self.layers[1](self._dropped(nodes), edges)
        return self._read(nodes.unflatten(0, rows.names.shape), rows)

    def _dropped(self, nodes: Float[Tensor, "node dim"]) -> Float[Tensor, "node dim"]:
        return functional.dropout(nodes, self.dropout, self.training)

    def _edges(self, rows: GraphRows) -> Edges:
        facts = rows.facts
        if self.joint:
            subject, object_ = rows.goals.unbind(dim=1)
            goal = torch.stack([subject, torch.full_like(subject, self.asked), object_], dim=1)
            facts = torch.cat([goal[:, None], facts], dim=1)
        row, place = torch.nonzero(facts[:, :, 1] != PAD, as_tuple=True)
        source, predicate, target = facts[row, place].unbind(dim=1)
        size = rows.names.shape[1]
        itself = torch.arange(rows.names.numel(), device=facts.device)
        vectors = self.predicates(predicate)
        return Edges(
            torch.cat([row * size + source, itself]),
            torch.cat([row * size + target, itself]),
            torch.cat([vectors, vectors.new_zeros(len(itself), vectors.shape[1])]),
            len(itself),
        )

    def _read(self, nodes: Float[Tensor, "query entity dim"], rows: GraphRows) -> Float[Tensor, "query target"]:
        own = (torch.arange(nodes.shape[1], device=nodes.device) < rows.num_entities[:, None]).to(nodes.dtype)
        mean = (nodes * own[:, :, None]).sum(dim=1) / rows.num_entities[:, None]
        ends = nodes.gather(1, rows.goals[:, :, None].expand(-1, -1, nodes.shape[2])).flatten(1)
        return self.projection(torch.cat([mean, ends], dim=1))  # type: ignore[no-any-return]
