"""What is learnt: how vectors pass along facts, how much each fact matters to a question, and what an answer scores."""

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ctp_core.frontier.config import FrontierConfig
from ctp_core.shapes import Float, Int, Tensor

UNLIKELY = -4.0  # the first logit of an entity that no step reaches
SPREAD = 0.1  # of what is first learnt of each atom


class Links(NamedTuple):
    """How the nodes of one step follow from those that the step before kept."""

    source: Int[Tensor, " edge"]  # among the nodes before
    atom: Int[Tensor, " edge"]
    target: Int[Tensor, " edge"]  # among the nodes of this step
    staying: Int[Tensor, " staying"]  # among the nodes before
    stayed: Int[Tensor, " staying"]  # where these are among the nodes of this step
    num_nodes: int


class _Messages(torch.autograd.Function):
    """Σ over the edges into a node of weight · (source + shift of the atom) ∘ scale of the atom.

    Computes what it gathers again in the backward pass: a step has far more edges than nodes.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, links: Links) -> Tensor:
        ctx.save_for_backward(hidden, scale, shift, weight)
        ctx.links = links
        message = hidden.index_select(0, links.source)
        message += shift.index_select(0, links.atom)
        message *= scale.index_select(0, links.atom)
        message *= weight[:, None]
        return hidden.new_zeros(links.num_nodes, hidden.shape[1]).index_add_(0, links.target, message)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        hidden, scale, shift, weight = ctx.saved_tensors
        links = ctx.links
        moved = hidden.index_select(0, links.source)
        moved += shift.index_select(0, links.atom)
        scales = scale.index_select(0, links.atom)
        incoming = gradient.index_select(0, links.target)
        to_weight = torch.linalg.vecdot(moved * scales, incoming)
        incoming *= weight[:, None]
        moved *= incoming
        to_scale = torch.zeros_like(scale).index_add_(0, links.atom, moved)
        incoming *= scales
        to_shift = torch.zeros_like(shift).index_add_(0, links.atom, incoming)
        return torch.zeros_like(hidden).index_add_(0, links.source, incoming), to_scale, to_shift, to_weight, None


class Layer(nn.Module):
    """One step: h' = h + relu(norm(W [Σ α · (h + shift) ∘ scale; h])), α = sigmoid of an attention by the question."""

    def __init__(self, num_atoms: int, config: FrontierConfig) -> None:
        super().__init__()
        self.scale = nn.Parameter(1 + SPREAD * torch.randn(num_atoms, config.dim))
        self.shift = nn.Parameter(SPREAD * torch.randn(num_atoms, config.dim))
        self.from_source = nn.Linear(config.dim, config.attention, bias=False)
        self.of_atom = nn.Embedding(num_atoms, config.attention)
        self.of_question = nn.Embedding(num_atoms, config.attention)
        self.wish = nn.Linear(config.attention, 1)
        self.update = nn.Linear(2 * config.dim, config.dim)
        self.norm = nn.LayerNorm(config.dim)
        self.dropout = config.dropout

    def attention(
        self, hidden: Float[Tensor, "before dim"], asked: Int[Tensor, " before"], links: Links
    ) -> Float[Tensor, " edge"]:
        """How much each edge matters to its question, from 0 to 1."""
        of_node = self.from_source(hidden) + self.of_question(asked)
        seen = of_node.index_select(0, links.source) + self.of_atom(links.atom)
        return torch.sigmoid(self.wish(functional.leaky_relu(seen, 0.1)).squeeze(1))

    def forward(
        self, hidden: Float[Tensor, "before dim"], weight: Float[Tensor, " edge"], links: Links
    ) -> Float[Tensor, "node dim"]:
        received = _Messages.apply(hidden, self.scale, self.shift, weight, links)  # type: ignore[no-untyped-call]
        own = hidden.new_zeros(links.num_nodes, hidden.shape[1]).index_copy(0, links.stayed, hidden[links.staying])
        updated = functional.relu(self.norm(self.update(torch.cat([received, own], dim=1))))
        return own + functional.dropout(updated, self.dropout, self.training)


class FrontierNetwork(nn.Module):
    """A question asks along an atom: a predicate for its objects, or its inverse for its subjects.

    logit = bias of the atom + weight of the atom · how common an answer the entity is + what the steps found.
    """

    def __init__(self, num_predicates: int, config: FrontierConfig) -> None:
        super().__init__()
        atoms = 2 * num_predicates
        self.num_predicates, self.dim = num_predicates, config.dim
        self.begin = nn.Embedding(atoms, config.dim)
        self.layers = nn.ModuleList(Layer(atoms, config) for _ in range(config.steps))
        self.read = nn.Linear(config.dim, config.dim)
        self.of_question = nn.Embedding(atoms, config.dim)
        self.gain = nn.Linear(config.dim, 1)
        self.unreached = nn.Parameter(torch.full((atoms,), UNLIKELY))
        self.commonness = nn.Parameter(torch.zeros(atoms))

    def gains(self, hidden: Float[Tensor, "node dim"], asked: Int[Tensor, " node"]) -> Float[Tensor, " node"]:
        """What the steps so far add to the logit of each node as an answer."""
        return self.gain(functional.relu(self.read(hidden) + self.of_question(asked))).squeeze(1)  # type: ignore[no-any-return]

    def base(self, asked: Int[Tensor, "*shape"], commonness: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The logit of an entity that no step reaches."""
        return self.unreached[asked] + self.commonness[asked] * commonness
