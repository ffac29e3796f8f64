"""The layers of the published code that differ from ours: in initial weights, message weights or number of heads."""

from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional

from ctp_core.networks.config import GatConfig, GcnConfig, MhaConfig, NetworkConfig
from ctp_core.networks.messages import AttentionLayer, ConvolutionLayer, Edges, MessageLayer
from ctp_core.networks.sequence import AttentionEncoder, HighwayEncoder, RecurrentEncoder, SequenceEncoder
from ctp_core.shapes import Float, Int, Tensor

SECOND_HEADS = 3  # of GAT's second layer, however many the first has
WINDOWS = 0.05  # a highway network's convolutions start between this and its negative
PASSED_ON = 2.0  # the bias of a highway's gate: at first 88 % passes unchanged


class UnscaledEncoder(SequenceEncoder):
    """MHA without a division of scores by the root of the heads' width, and without a map that mixes the heads.

    Vectors start as N(0, 1), so scores are about 7 in size: at first a head looks at one or two places.
    """

    def __init__(self, config: MhaConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.wanted, self.offered = (nn.Linear(config.dim, config.dim, bias=False) for _ in range(2))
        for comparison in (self.wanted, self.offered):
            nn.init.xavier_uniform_(comparison.weight)
        self.values = nn.Linear(config.dim, config.dim)
        self.top = RecurrentEncoder("lstm", config.dim, config.hidden)
        self.width = self.top.width

    def attended(self, symbols: Float[Tensor, "query place dim"]) -> Float[Tensor, "query place dim"]:
        """Adds to every symbol what its heads found."""
        maps = (self.wanted, self.offered, self.values)
        wanted, offered, values = (one(symbols).unflatten(2, (self.heads, -1)).transpose(1, 2) for one in maps)
        found = functional.scaled_dot_product_attention(wanted, offered, values, scale=1.0)  # [query, head, place, …]
        return symbols + found.transpose(1, 2).flatten(2)

    def forward(
        self, symbols: Float[Tensor, "query place dim"], lengths: Int[Tensor, " query"]
    ) -> Float[Tensor, "query width"]:
        return self.top(self.attended(symbols), lengths)  # type: ignore[no-any-return]


class DepartingLayer(ConvolutionLayer):
    """Counts the facts that start at a node as its degree; ours counts those that arrive."""

    def degrees(self, edges: Edges) -> Float[Tensor, " node"]:
        return super().degrees(replace(edges, targets=edges.sources))


def published_encoder(encoder: SequenceEncoder, config: NetworkConfig) -> SequenceEncoder:
    """Our encoder as the published code has it, with fresh weights where they start differently."""
    if isinstance(encoder, AttentionEncoder):
        assert isinstance(config, MhaConfig)
        return UnscaledEncoder(config)
    if isinstance(encoder, HighwayEncoder):
        _start_highway(encoder)
    return encoder


def published_layers(config: GatConfig | GcnConfig) -> nn.ModuleList:
    sizes = (config.dim, config.edge_dim)
    layers: list[MessageLayer] = [DepartingLayer(*sizes), DepartingLayer(*sizes)]
    if isinstance(config, GatConfig):
        layers = [AttentionLayer(*sizes, heads) for heads in (config.heads, SECOND_HEADS)]
    for layer in layers:
        _start_messages(layer)
    return nn.ModuleList(layers)


def _start_highway(encoder: HighwayEncoder) -> None:
    for window in encoder.convolutions.windows:
        assert isinstance(window, nn.Conv1d) and window.bias is not None
        nn.init.uniform_(window.weight, -WINDOWS, WINDOWS)
        nn.init.zeros_(window.bias)
    for layer in (encoder.projection, *encoder.layers):
        assert isinstance(layer, nn.Linear)
        nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
        nn.init.zeros_(layer.bias)
    for layer in encoder.layers:
        nn.init.constant_(layer.bias[encoder.width :], PASSED_ON)  # type: ignore[index]


def _start_messages(layer: MessageLayer) -> None:
    """Starts weights by Glorot's rule, about twice as large as torch's default, and biases at 0."""
    nn.init.xavier_uniform_(layer.weight.weight)  # type: ignore[union-attr, arg-type]
    nn.init.xavier_uniform_(layer.update.weight)
    nn.init.zeros_(layer.update.bias)
    if isinstance(layer, AttentionLayer):  # a head's two vectors are one in the published code
        parts = torch.cat([layer.to_target.data, layer.to_message.data], dim=1)
        nn.init.xavier_uniform_(parts)
        dim = layer.to_target.shape[1]
        layer.to_target.data, layer.to_message.data = parts[:, :dim].clone(), parts[:, dim:].clone()
