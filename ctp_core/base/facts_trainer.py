"""What trainings on a KB of facts share: filtered ranks as validation, and a model calibrated on unseen facts."""

from abc import abstractmethod
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float

from ctp_core.base.calibration import calibrate_on_unseen
from ctp_core.base.config import BaseConfig
from ctp_core.base.evaluation import ranking_metrics
from ctp_core.base.facts_model import FactsModel
from ctp_core.base.trainer import Trainer
from ctp_core.base.training_loop import Criterion, GradientTrainer
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.splits import FactsSplit

Facts_co = TypeVar("Facts_co", bound=FactsModel, covariant=True)


class FactsTrainer(GradientTrainer[Facts_co]):
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


class CalibratedTrainer(Trainer[Facts_co]):
    """Learns what can be applied to any facts, so that it is calibrated on facts that are hidden from it."""

    kb: FactsKB
    split: FactsSplit

    @abstractmethod
    def model_on(self, kb: FactsKB) -> Facts_co:
        """The best model so far, applied to the facts of this KB; not calibrated."""

    def model(self) -> Facts_co:
        calibration = calibrate_on_unseen(lambda kb: self.model_on(kb).kb_logits, self.kb, self.split)
        return self.ranking_model().calibrated_by(calibration)

    def ranking_model(self) -> Facts_co:
        return self.model_on(self.kb)
