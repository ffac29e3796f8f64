"""Convolutions over symbols (Kim 2014), and with highway layers on top (Kim et al. 2016)."""

import torch
from torch import nn
from torch.nn import functional

from ctp_core.networks.sequence import SequenceEncoder
from ctp_core.shapes import Float, Int, Tensor

WIDTHS = (1, 2, 3, 4, 5)
CNN_OUTPUT = 30
HIGHWAY_FILTERS = (4, 8, 16, 32, 64)  # more for wider windows, which have more to tell apart
HIGHWAY_OUTPUT = 16


class Convolutions(nn.Module):
    """The largest value of every filter, over all windows that lie within the row (one at least)."""

    def __init__(self, dim: int, filters: tuple[int, ...]) -> None:
        super().__init__()
        pairs = zip(WIDTHS, filters, strict=True)
        self.windows = nn.ModuleList(nn.Conv1d(dim, count, width) for width, count in pairs)
        self.width = sum(filters)

    def forward(
        self, symbols: Float[Tensor, "query place dim"], lengths: Int[Tensor, " query"]
    ) -> Float[Tensor, "query width"]:
        missing = max(0, WIDTHS[-1] - symbols.shape[1])
        channels = functional.pad(symbols, (0, 0, 0, missing)).transpose(1, 2)
        best = []
        for width, window in zip(WIDTHS, self.windows, strict=True):
            found = functional.relu(window(channels))  # [query, filter, start]
            starts = torch.arange(found.shape[2], device=found.device)
            inside = starts < (lengths[:, None] - width + 1).clamp(min=1)
            best.append(found.masked_fill(~inside[:, None, :], 0.0).amax(dim=2))  # relu: nothing is below 0
        return torch.cat(best, dim=1)


class ConvolutionEncoder(SequenceEncoder):
    """Convolutions and a linear layer."""

    def __init__(self, dim: int, filters: int) -> None:
        super().__init__()
        self.convolutions = Convolutions(dim, (filters,) * len(WIDTHS))
        self.projection = nn.Linear(self.convolutions.width, CNN_OUTPUT)
        self.width = CNN_OUTPUT

    def forward(
        self, symbols: Float[Tensor, "query place dim"], lengths: Int[Tensor, " query"]
    ) -> Float[Tensor, "query width"]:
        return self.projection(self.convolutions(symbols, lengths))  # type: ignore[no-any-return]


class HighwayEncoder(SequenceEncoder):
    """Convolutions, a linear layer, and layers that pass on a learnt share of what they get unchanged."""

    def __init__(self, dim: int, layers: int) -> None:
        super().__init__()
        self.convolutions = Convolutions(dim, HIGHWAY_FILTERS)
        self.projection = nn.Linear(self.convolutions.width, HIGHWAY_OUTPUT)
        self.layers = nn.ModuleList(nn.Linear(HIGHWAY_OUTPUT, 2 * HIGHWAY_OUTPUT) for _ in range(layers))
        for layer in self.layers:
            nn.init.ones_(layer.bias[HIGHWAY_OUTPUT:])  # type: ignore[index]  # at first, pass on most
        self.width = HIGHWAY_OUTPUT

    def forward(
        self, symbols: Float[Tensor, "query place dim"], lengths: Int[Tensor, " query"]
    ) -> Float[Tensor, "query width"]:
        code = self.projection(self.convolutions(symbols, lengths))
        for layer in self.layers:
            changed, gate = layer(code).chunk(2, dim=1)
            kept = torch.sigmoid(gate)
            code = kept * code + (1 - kept) * functional.relu(changed)
        return code  # type: ignore[no-any-return]
