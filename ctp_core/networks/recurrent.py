"""LSTM, GRU and RNN, in both directions."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from ctp_core.networks.sequence import SequenceEncoder
from ctp_core.shapes import Float, Int, Tensor

CELLS: dict[str, type[nn.LSTM] | type[nn.GRU] | type[nn.RNN]] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class RecurrentEncoder(SequenceEncoder):
    """The last state of each direction."""

    def __init__(self, cell: str, dim: int, hidden: int) -> None:
        super().__init__()
        self.cell = CELLS[cell](dim, hidden, batch_first=True, bidirectional=True)
        self.width = 2 * hidden

    def forward(
        self, symbols: Float[Tensor, "query place dim"], lengths: Int[Tensor, " query"]
    ) -> Float[Tensor, "query width"]:
        packed = pack_padded_sequence(symbols, lengths.cpu(), batch_first=True, enforce_sorted=False)
        state = self.cell(packed)[1]
        hidden = state[0] if isinstance(state, tuple) else state  # an LSTM has a cell beside it
        return torch.cat([hidden[0], hidden[1]], dim=1)
