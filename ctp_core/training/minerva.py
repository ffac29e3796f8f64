"""Trains MINERVA: a walk is rewarded where it ends at the object of the fact it was asked for.

The published code samples walks and estimates the gradient of the expected reward (REINFORCE). Here the reward of all
walks is summed up, and the mean of its logarithm made as large as can be: no noise, and a fact that is hardly ever
found teaches as much as others (docs/decisions/0035-minerva-without-sampling.md).
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ctp_core.config.base import BaseConfig
from ctp_core.config.walkers import MinervaConfig
from ctp_core.datasets.kb import FactsKB, KnowledgeBase
from ctp_core.errors import ConfigError
from ctp_core.models.minerva import MinervaModel, Walker, walk_tables
from ctp_core.models.reach import FLOOR
from ctp_core.provers.dense import check_dense
from ctp_core.training.randomness import following
from ctp_core.training.reach import ReachTrainer


class MinervaTrainer(ReachTrainer):
    """Asks for hidden facts of a predicate or of its inverse; a walk to another true answer does not count."""

    model_class = MinervaModel
    config: MinervaConfig
    module: Walker

    def __init__(self, config: BaseConfig, kb: KnowledgeBase, device: torch.device) -> None:
        if not isinstance(config, MinervaConfig) or not isinstance(kb, FactsKB):
            raise ConfigError("MINERVA learns from a KB of kind 'facts' and a config of method 'minerva'")
        super().__init__(config, kb, device, config.eval_every)
        num_entities, self._num_predicates = len(kb.entities), len(kb.predicates)
        check_dense(max(2.0 * self._num_predicates, config.beam) * num_entities**2, config.method)
        with following(self.generator, device):
            self.module = Walker(self._num_predicates, config).to(device)
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=config.learning_rate)
        self._tables = walk_tables(self.split.train, num_entities, self._num_predicates, device)
        used = np.unique(self.split.train[:, 1])
        self._queries = torch.from_numpy(np.concatenate([used, used + self._num_predicates]))

    def batches(self) -> Sequence[Tensor]:
        order = self._queries[torch.randperm(len(self._queries), generator=self.generator)]
        return torch.split(order, self.config.batch_size)

    def learning_rate(self, step: int, steps: int) -> float:
        return self.config.learning_rate * (1 - step / steps)

    def loss(self, batch: Tensor) -> Float[Tensor, ""]:
        """-(the mean log chance of the hidden facts + what keeping choices open is worth)."""
        parts = [self._walked(query) for query in batch.tolist()]
        rewards = torch.cat([reward for reward, _ in parts])
        openness = self.config.entropy * (1 - self.made) * torch.stack([entropy for _, entropy in parts]).mean()
        return -(rewards.sum() / max(1, len(rewards)) + openness)

    def _walked(self, query: int) -> tuple[Float[Tensor, " fact"], Float[Tensor, ""]]:
        """The log chance of every hidden fact among walks that do not end at another true answer, and the entropy."""
        facts = self._tables[query]
        hidden = facts * (torch.rand(facts.shape, generator=self.generator).to(self.device) < self.config.hidden_facts)
        visible = self._tables.clone()
        visible[query] -= hidden
        visible[(query + self._num_predicates) % (2 * self._num_predicates)] -= hidden.T
        reached, entropy = self.module.walk(query, visible, self.config.length, self.config.beam)
        wrong = (reached * (1 - facts)).sum(dim=1, keepdim=True)
        return ((reached + FLOOR) / (reached + wrong + FLOOR))[hidden.bool()].log(), entropy
