"""Base of the trainers of walkers: what a step hides, validation, and the calibration of scores to probabilities."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch

from ctp_core.base.cost import check_dense
from ctp_core.base.evaluation import known_filters, rank_facts
from ctp_core.base.facts_trainer import CalibratedTrainer, FactsTrainer
from ctp_core.base.training_loop import following
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.shapes import Float, Int, Tensor
from ctp_core.walkers.config import WalkerConfig
from ctp_core.walkers.cost import step_cells
from ctp_core.walkers.model import ReachModel

REMEDY = "lower `batch_size`, `rank` or `beam`, or use 'rules' or 'complex'"


class ReachTrainer(CalibratedTrainer[ReachModel], FactsTrainer[ReachModel]):
    """Validates and calibrates without the facts that are asked for, so that no fact leads to itself."""

    model_class: ClassVar[type[ReachModel]]
    config: WalkerConfig

    def __init__(self, config: WalkerConfig, kb: FactsKB, device: torch.device) -> None:
        super().__init__(config, kb, device, config.eval_every)
        num_entities, self.num_predicates = len(kb.entities), len(kb.predicates)
        check_dense(step_cells(config, num_entities, self.num_predicates), config.method, REMEDY)
        with following(self.generator, device):
            self.module = self.model_class.module_class(self.num_predicates, config).to(device)
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=config.learning_rate)
        self.tables = self.model_class.tables_of(self.split.train, num_entities, self.num_predicates, device)
        self.asked = torch.from_numpy(self.questions(np.unique(self.split.train[:, 1])))

    def questions(self, predicates: Int[np.ndarray, " predicate"]) -> Int[np.ndarray, " question"]:
        """What an epoch asks for once: each predicate that has facts."""
        return predicates

    def batches(self) -> Sequence[Tensor]:
        order = self.asked[torch.randperm(len(self.asked), generator=self.generator)]
        return torch.split(order, self.config.batch_size)

    def hidden(self, facts: Float[Tensor, "*goal entity entity"]) -> Float[Tensor, "*goal entity entity"]:
        """Draws a random share of the facts, to be hidden in this step: at times the only fact of a predicate."""
        draws = torch.rand(facts.shape, generator=self.generator).to(self.device)
        return facts * (draws < self.config.hidden_facts)

    def ranks(self) -> Float[np.ndarray, " question"]:
        model = self.model_class(self.config, self.split.visible(self.kb), self.module)
        return rank_facts(self.split.valid, model.kb_logits, known_filters(self.kb, "valid"), self.on_part)

    def model_on(self, kb: FactsKB) -> ReachModel:
        return self.model_class(self.config, kb, self.with_best_weights(self.module))
