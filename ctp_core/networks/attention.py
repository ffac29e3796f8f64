"""Multi-head self-attention (Vaswani et al. 2017) with an LSTM on top."""

import torch
from torch import nn

from ctp_core.networks.recurrent import RecurrentEncoder
from ctp_core.networks.sequence import SequenceEncoder
from ctp_core.shapes import Float, Int, Tensor


class AttentionEncoder(SequenceEncoder):
    """Every symbol plus what it attends to; the LSTM reads the sums in both directions."""

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
