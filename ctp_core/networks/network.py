"""What a network is to its trainer and its model."""

from abc import ABC, abstractmethod

from torch import nn

from ctp_core.networks.rows import GraphRows
from ctp_core.shapes import Float, Tensor


class GraphNetwork(nn.Module, ABC):
    """Logits of all targets for every row of a batch."""

    @abstractmethod
    def forward(self, rows: GraphRows) -> Float[Tensor, "query target"]: ...
