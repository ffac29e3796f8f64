"""Networks that read a graph as a sequence of symbols: subject, predicate, object, fact after fact.

The encoders: LSTM, GRU and RNN in both directions; multi-head self-attention (Vaswani et al. 2017) under an LSTM;
convolutions (Kim 2014), also under highway layers (Kim et al. 2016).
"""

from abc import ABC, abstractmethod

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from ctp_core.networks.config import Encoding
from ctp_core.networks.rows import GraphNetwork, GraphRows
from ctp_core.shapes import Float, Int, Tensor

CELLS: dict[str, type[nn.LSTM] | type[nn.GRU] | type[nn.RNN]] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
WIDTHS = (1, 2, 3, 4, 5)
CNN_OUTPUT = 30
HIGHWAY_FILTERS = (4, 8, 16, 32, 64)  # more for wider windows, which have more to tell apart
HIGHWAY_OUTPUT = 16


class SequenceEncoder(nn.Module, ABC):
    """Encodes each row of symbol vectors as one vector of length `width`. Beyond a row's length, vectors are zero."""

    width: int

    @abstractmethod
    def forward(
        self, symbols: Float[Tensor, "query place dim"], lengths: Int[Tensor, " query"]
    ) -> Float[Tensor, "query width"]: ...


class RecurrentEncoder(SequenceEncoder):
    """Joins the final states of an LSTM, GRU or RNN that runs in both directions."""

    def __init__(self, cell: str, dim: int, hidden: int) -> None:
        super().__init__()
        self.cell = CELLS[cell](dim, hidden, batch_first=True, bidirectional=True)
        self.width = 2 * hidden

    def forward(
        self, symbols: Float[Tensor, "query place dim"], lengths: Int[Tensor, " query"]
    ) -> Float[Tensor, "query width"]:
        packed = pack_padded_sequence(symbols, lengths.cpu(), batch_first=True, enforce_sorted=False)
        state = self.cell(packed)[1]
        hidden = state[0] if isinstance(state, tuple) else state  # an LSTM gives (hidden, cell)
        return torch.cat([hidden[0], hidden[1]], dim=1)


class AttentionEncoder(SequenceEncoder):
    """Adds to each symbol what it attends to, and reads the sums with an LSTM in both directions."""

    def __init__(self, dim: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.top = RecurrentEncoder("lstm", dim, hidden)
        self.width = self.top.width

    def forward(
        self, symbols: Float[Tensor, "query place dim"], lengths: Int[Tensor, " query"]
    ) -> Float[Tensor, "query width"]:
        beyond = torch.arange(symbols.shape[1], device=symbols.device) >= lengths[:, None]
        attended, _ = self.attention(symbols, symbols, symbols, key_padding_mask=beyond, need_weights=False)
        return self.top(symbols + attended, lengths)  # type: ignore[no-any-return]


class Convolutions(nn.Module):
    """Takes the maximum of each filter over the windows within a row, or its first window if the row is too short."""

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
            best.append(found.masked_fill(~inside[:, None, :], 0.0).amax(dim=2))  # relu gives nothing below 0
        return torch.cat(best, dim=1)


class ConvolutionEncoder(SequenceEncoder):
    """Convolutions followed by a linear layer."""

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
    """Convolutions, a linear layer, then layers that pass on a learnt share of their input unchanged."""

    def __init__(self, dim: int, layers: int) -> None:
        super().__init__()
        self.convolutions = Convolutions(dim, HIGHWAY_FILTERS)
        self.projection = nn.Linear(self.convolutions.width, HIGHWAY_OUTPUT)
        self.layers = nn.ModuleList(nn.Linear(HIGHWAY_OUTPUT, 2 * HIGHWAY_OUTPUT) for _ in range(layers))
        for layer in self.layers:
            nn.init.ones_(layer.bias[HIGHWAY_OUTPUT:])  # type: ignore[index]  # start by passing most on
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


class SequenceNetwork(GraphNetwork):
    """Computes W·enc([G; KB]), or W·[enc(KB); enc(G)] where the encoding is `apart`.

    The goal G is written as (subject, a symbol that means “asked”, object), so it never gives the label away.
    """

    def __init__(self, encoder: SequenceEncoder, dim: int, sizes: tuple[int, int, int], encoding: Encoding) -> None:
        super().__init__()
        self.num_names, num_predicates, num_targets = sizes
        self.asked = self.num_names + num_predicates
        self.padding = self.asked + 1
        self.symbols = nn.Embedding(self.padding + 1, dim, padding_idx=self.padding)
        self.encoder, self.joint = encoder, encoding == "joint"
        self.projection = nn.Linear(encoder.width * (1 if self.joint else 2), num_targets)

    def forward(self, rows: GraphRows) -> Float[Tensor, "query target"]:
        facts, lengths = self._facts(rows), 3 * rows.present.sum(dim=1)
        goal = self._goal(rows)
        if self.joint:
            together = torch.cat([goal, facts], dim=1)
            return self.projection(self.encoder(self.symbols(together), lengths + 3))  # type: ignore[no-any-return]
        codes = [
            self.encoder(self.symbols(facts), lengths),
            self.encoder(self.symbols(goal), torch.full_like(lengths, 3)),
        ]
        return self.projection(torch.cat(codes, dim=1))  # type: ignore[no-any-return]

    def _facts(self, rows: GraphRows) -> Int[Tensor, "query place"]:
        shift = torch.tensor([0, self.num_names, 0], device=rows.facts.device)
        symbols = torch.where(rows.present[:, :, None], rows.named_facts + shift, self.padding)
        return symbols.flatten(1)  # [query, 3 · fact]

    def _goal(self, rows: GraphRows) -> Int[Tensor, "query 3"]:
        subject, object_ = rows.named_goals.unbind(dim=1)
        return torch.stack([subject, torch.full_like(subject, self.asked), object_], dim=1)
