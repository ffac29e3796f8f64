"""Trains NeuralLP: some facts of a predicate are hidden, and walks along the others must find them."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ctp_core.config.base import BaseConfig
from ctp_core.config.walkers import NeuralLpConfig
from ctp_core.datasets.kb import FactsKB, KnowledgeBase
from ctp_core.errors import ConfigError
from ctp_core.models.neurallp import NeuralLpModel, OperatorController
from ctp_core.models.reach import FLOOR
from ctp_core.provers.dense import check_dense
from ctp_core.provers.evidence import atom_tables
from ctp_core.training.randomness import following
from ctp_core.training.reach import ReachTrainer

LOST = 0.01  # walks that end nowhere are no better than so much that ends at wrong entities


class NeuralLpTrainer(ReachTrainer):
    """-log of the share of all walks that end at the hidden fact's object, and likewise of its subject."""

    model_class = NeuralLpModel
    config: NeuralLpConfig
    module: OperatorController

    def __init__(self, config: BaseConfig, kb: KnowledgeBase, device: torch.device) -> None:
        if not isinstance(config, NeuralLpConfig) or not isinstance(kb, FactsKB):
            raise ConfigError("NeuralLP learns from a KB of kind 'facts' and a config of method 'neurallp'")
        super().__init__(config, kb, device, config.eval_every)
        self._sizes = (len(kb.entities), len(kb.predicates))
        check_dense(2.0 * self._sizes[1] * self._sizes[0] ** 2, config.method)
        with following(self.generator, device):
            self.module = OperatorController(self._sizes[1], config).to(device)
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=config.learning_rate)
        self._tables = atom_tables(self.split.train, *self._sizes, device)
        self._goals = torch.from_numpy(np.unique(self.split.train[:, 1]))
        self._everybody = torch.arange(self._sizes[0], device=device)

    def batches(self) -> Sequence[Tensor]:
        order = self._goals[torch.randperm(len(self._goals), generator=self.generator)]
        return torch.split(order, self.config.batch_size)

    def learning_rate(self, step: int, steps: int) -> float:
        del step, steps
        return self.config.learning_rate

    def loss(self, batch: Tensor) -> Float[Tensor, ""]:
        goals, facts = batch.to(self.device), self._tables[batch.to(self.device)]
        hidden = self._hidden(facts)
        visible = self._tables.clone()
        visible[goals] -= hidden
        visible[goals + self._sizes[1]] -= hidden.transpose(1, 2)
        reached = self.module(goals, visible, self._everybody)
        asked = hidden.bool()
        losses = [_unlikely(reached, facts.bool(), asked, entities) for entities in (2, 1)]
        return torch.stack(losses).sum() / asked.sum().clamp(min=1)

    def _hidden(self, facts: Float[Tensor, "goal entity entity"]) -> Float[Tensor, "goal entity entity"]:
        """A random share of them; a predicate with one fact hides it now and then."""
        draws = torch.rand(facts.shape, generator=self.generator).to(self.device)
        return facts * (draws < self.config.hidden_facts)


def _unlikely(
    reached: Float[Tensor, "goal entity entity"],
    facts: Bool[Tensor, "goal entity entity"],
    asked: Bool[Tensor, "goal entity entity"],
    entities: int,
) -> Float[Tensor, ""]:
    """-log of what is reached of the asked facts, among that and all that is reached and no fact, along one axis."""
    false = reached.masked_fill(facts, 0.0).sum(dim=entities, keepdim=True).expand_as(reached)[asked]
    true = reached[asked] + FLOOR
    return ((true + false + LOST).log() - true.log()).sum()
