"""Graphs read as sequences of symbols: subject, predicate, object, fact after fact."""

from abc import ABC, abstractmethod

import torch
from torch import nn

from ctp_core.networks.config import Encoding
from ctp_core.networks.network import GraphNetwork
from ctp_core.networks.rows import GraphRows
from ctp_core.shapes import Float, Int, Tensor


class SequenceEncoder(nn.Module, ABC):
    """Vectors of symbols -> one vector of length `width`. Rows are shorter than the batch; what is beyond is zero."""

    width: int

    @abstractmethod
    def forward(
        self, symbols: Float[Tensor, "query place dim"], lengths: Int[Tensor, " query"]
    ) -> Float[Tensor, "query width"]: ...


class SequenceNetwork(GraphNetwork):
    """W·enc([G; KB]), or W·[enc(KB); enc(G)] where the encoding is `apart`.

    G is (subject, a symbol that says that this place is asked for, object): it never tells the label.
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
