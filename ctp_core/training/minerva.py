"""Trains MINERVA by REINFORCE: a walk is rewarded where it ends at the object of the fact it was asked for."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ctp_core.config.base import BaseConfig
from ctp_core.config.walkers import MinervaConfig
from ctp_core.datasets.kb import FactsKB, KnowledgeBase
from ctp_core.errors import ConfigError
from ctp_core.evaluation.ranking import known_filters, rank_facts
from ctp_core.models.minerva import Actions, MinervaModel, Walker
from ctp_core.models.reach import UNCALIBRATED
from ctp_core.provers.dense import check_dense
from ctp_core.provers.edge_list import EdgeList
from ctp_core.training.calibration import fit_on_unseen
from ctp_core.training.gradient import GradientTrainer
from ctp_core.training.randomness import following

BASELINE_RATE = 0.05  # how fast the mean reward, which every reward is compared with, follows


class MinervaTrainer(GradientTrainer):
    """The fact itself may not be followed, either way; an end that is another true answer is neither good nor bad."""

    config: MinervaConfig
    module: Walker

    def __init__(self, config: BaseConfig, kb: KnowledgeBase, device: torch.device) -> None:
        if not isinstance(config, MinervaConfig) or not isinstance(kb, FactsKB):
            raise ConfigError("MINERVA learns from a KB of kind 'facts' and a config of method 'minerva'")
        super().__init__(config, kb, device, config.eval_every)
        num_entities, self._num_predicates = len(kb.entities), len(kb.predicates)
        check_dense(2.0 * self._num_predicates * num_entities**2, config.method)
        with following(self.generator, device):
            self.module = Walker(self._num_predicates, config).to(device)
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=config.learning_rate)
        edges = EdgeList(self.split.train, num_entities, self._num_predicates)
        self._actions = Actions.of(edges, config.max_actions, device)
        facts = torch.from_numpy(self.split.train).to(device)
        back = torch.stack([facts[:, 2], facts[:, 1] + self._num_predicates, facts[:, 0]], dim=1)
        self._asked = torch.cat([facts, back])
        self._known = torch.zeros(2 * self._num_predicates, num_entities, num_entities, dtype=torch.bool, device=device)
        self._known[self._asked[:, 1], self._asked[:, 0], self._asked[:, 2]] = True

    def batches(self) -> Sequence[Tensor]:
        return torch.split(torch.randperm(len(self._asked), generator=self.generator), self.config.batch_size)

    def learning_rate(self, step: int, steps: int) -> float:
        del step, steps
        return self.config.learning_rate

    def loss(self, batch: Tensor) -> Float[Tensor, ""]:
        facts = self._asked[batch.to(self.device)].repeat_interleave(self.config.rollouts, dim=0)
        subjects, predicates, objects = facts.unbind(dim=1)
        entities, state = subjects, self.module.begin(len(facts))
        chances = entropy = state[0].new_zeros(len(facts))
        for _ in range(self.config.length):
            atoms, targets = self._actions.atoms[entities], self._actions.targets[entities]
            policy = self.module.log_policy(state, predicates, self._allowed(facts, entities, atoms, targets))
            chosen = self._draw(policy)
            chances = chances + policy.gather(1, chosen)[:, 0]
            entropy = entropy - (policy.exp() * policy.clamp(min=-100.0)).sum(dim=1)  # 0 · -inf is 0 here
            entities, taken = targets.gather(1, chosen)[:, 0], atoms.gather(1, chosen)[:, 0]
            state = self.module.step(state, taken)
        found = (entities == objects).float()
        counted = 1.0 - (self._known[predicates, subjects, entities] & (found == 0)).float()
        advantage = (found - self.module.mean_reward) * counted
        self.module.mean_reward.lerp_(found.mean(), BASELINE_RATE)
        openness = self.config.entropy * (1 - self.made)
        return -(advantage.detach() * chances + openness * entropy / self.config.length).mean()

    def _allowed(
        self,
        facts: Int[Tensor, "row 3"],
        entities: Int[Tensor, " row"],
        atoms: Int[Tensor, "row action"],
        targets: Int[Tensor, "row action"],
    ) -> Int[Tensor, "row action"]:
        """The atoms without the fact that is asked for."""
        subjects, predicates, objects = (column[:, None] for column in facts.unbind(dim=1))
        at = entities[:, None]
        inverses = (predicates + self._num_predicates) % (2 * self._num_predicates)
        forwards = (at == subjects) & (atoms == predicates) & (targets == objects)
        backwards = (at == objects) & (atoms == inverses) & (targets == subjects)
        return atoms.masked_fill(forwards | backwards, -1)

    def _draw(self, policy: Float[Tensor, "row action"]) -> Int[Tensor, "row 1"]:
        chances = policy.detach().exp().cpu()
        return torch.multinomial(chances, 1, generator=self.generator).to(self.device)

    def ranks(self) -> Float[np.ndarray, " question"]:
        model = MinervaModel(self.config, self.split.visible(self.kb), self.module, UNCALIBRATED)
        return rank_facts(self.split.valid, model.object_logits, model.subject_logits, known_filters(self.kb))

    def model(self) -> MinervaModel:
        module = self.best_module()
        calibration = fit_on_unseen(
            lambda kb: MinervaModel(self.config, kb, module, UNCALIBRATED).logarithms, self.kb, self.split
        )
        return MinervaModel(self.config, self.kb, module, calibration)
