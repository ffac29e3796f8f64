"""What all trainings by gradient on a KB of facts share: its split, and filtered ranks as validation."""

from abc import abstractmethod

import numpy as np
import torch
from jaxtyping import Float

from ctp_core.base.config import BaseConfig
from ctp_core.base.evaluation import ranking_metrics
from ctp_core.base.training_loop import Criterion, GradientTrainer
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.splits import FactsSplit


class FactsTrainer(GradientTrainer):
    """Keeps the weights with the highest MRR of the validation facts."""

    criterion = Criterion("best_mrr", "mrr", lower=False)

    def __init__(self, config: BaseConfig, kb: FactsKB, device: torch.device, eval_every: int) -> None:
        super().__init__(config, device, eval_every)
        self.kb, self.split = kb, FactsSplit.of(kb)

    @abstractmethod
    def ranks(self) -> Float[np.ndarray, " question"]:
        """Filtered ranks of the validation facts by the present weights."""

    def validation(self) -> dict[str, float]:
        return ranking_metrics(self.ranks()) if len(self.split.valid) else {}
