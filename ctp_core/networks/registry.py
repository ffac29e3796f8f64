"""The one table of networks: method -> how it is built from its config."""

from collections.abc import Callable
from typing import Any

from ctp_core.networks.config import NetworkConfig
from ctp_core.networks.messages import AttentionLayer, ConvolutionLayer, MessageLayer, MessageNetwork
from ctp_core.networks.rows import GraphNetwork
from ctp_core.networks.sequence import (
    CELLS,
    AttentionEncoder,
    ConvolutionEncoder,
    HighwayEncoder,
    RecurrentEncoder,
    SequenceEncoder,
    SequenceNetwork,
)

ENCODERS: dict[str, Callable[[Any], SequenceEncoder]] = {
    **{cell: lambda config: RecurrentEncoder(config.method, config.dim, config.hidden) for cell in CELLS},
    "cnn": lambda config: ConvolutionEncoder(config.dim, config.filters),
    "cnnh": lambda config: HighwayEncoder(config.dim, config.highway),
    "mha": lambda config: AttentionEncoder(config.dim, config.heads, config.hidden),
}
LAYERS: dict[str, Callable[[Any], MessageLayer]] = {
    "gat": lambda config: AttentionLayer(config.dim, config.edge_dim, config.heads),
    "gcn": lambda config: ConvolutionLayer(config.dim, config.edge_dim),
}


def build_network(config: NetworkConfig, num_predicates: int, num_targets: int) -> GraphNetwork:
    """Fresh weights, drawn from torch's own generator."""
    sizes = (config.names, num_predicates, num_targets)
    if config.method in ENCODERS:
        return SequenceNetwork(ENCODERS[config.method](config), config.dim, sizes, config.encoding)
    make = LAYERS[config.method]
    vector_sizes = (config.dim, config.edge_dim)  # type: ignore[attr-defined]
    options = (config.encoding, config.rounds, config.dropout)  # type: ignore[attr-defined]
    return MessageNetwork((make(config), make(config)), vector_sizes, sizes, *options)
