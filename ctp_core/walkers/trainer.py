"""Base of the trainers of walkers: validation, and the calibration of scores to probabilities."""

from typing import ClassVar

import numpy as np
from jaxtyping import Float

from ctp_core.base.calibration import fit_on_unseen
from ctp_core.base.evaluation import known_filters, rank_facts
from ctp_core.base.facts_trainer import FactsTrainer
from ctp_core.base.goals import Score
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.walkers.model import UNCALIBRATED, ReachModel


class ReachTrainer(FactsTrainer):
    """Validates and calibrates without the facts that are asked for, so that no fact leads to itself."""

    model_class: ClassVar[type[ReachModel]]

    def ranks(self) -> Float[np.ndarray, " question"]:
        model = self.model_class(self.config, self.split.visible(self.kb), self.module, UNCALIBRATED)
        return rank_facts(self.split.valid, model.kb_logits, known_filters(self.kb, "valid"))

    def model(self) -> ReachModel:
        module = self.best_module()

        def score_on(kb: FactsKB) -> Score:
            return self.model_class(self.config, kb, module, UNCALIBRATED).kb_logits

        return self.model_class(self.config, self.kb, module, fit_on_unseen(score_on, self.kb, self.split))
