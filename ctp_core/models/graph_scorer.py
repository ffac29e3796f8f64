"""What scores the targets of many graphs at once: a prover with its theory, or a network."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ctp_core.datasets.isomorphism import CanonicalGraph
from ctp_core.shapes import Float, Tensor
from ctp_core.symbols import Vocabulary


class GraphScorer(ABC):
    """`module` holds what is learnt. Instances and batches are of the scorer's own kind."""

    predicates: Vocabulary
    targets: tuple[str, ...]
    module: nn.Module

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    @abstractmethod
    def instance(self, graph: CanonicalGraph) -> Any:
        """The graph as this scorer sees it; raises UnknownSymbol for a predicate that was not learnt."""

    @abstractmethod
    def stack(self, instances: Sequence[Any], depth: int | None) -> Any:
        """Many graphs as one batch; `depth` matters to provers only."""

    @abstractmethod
    def scores(self, batch: Any) -> Float[Tensor, "query target"]:
        """As the model answers, in [0, 1]; no gradient."""

    @abstractmethod
    def afresh(self) -> "GraphScorer":
        """The same weights with nothing remembered of former batches: for measuring."""
