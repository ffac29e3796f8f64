"""Trains networks on graphs by cross-entropy among all targets; entities get new names in every step."""

import torch

from ctp_core.base.graphs_trainer import SCORE_FLOOR, GraphsTrainer, among_targets
from ctp_core.base.trainer import OnStep, Progress, ignore
from ctp_core.base.training_loop import following
from ctp_core.kb.knowledge_base import GraphsKB
from ctp_core.networks.config import NetworkConfig
from ctp_core.networks.model import NetworkModel, NetworkScorer
from ctp_core.networks.registry import build_network
from ctp_core.networks.rows import GraphRows
from ctp_core.shapes import Float, Int, Tensor


class NetworkTrainer(GraphsTrainer[NetworkModel]):
    """The trainer of every network."""

    config: NetworkConfig
    scorer: NetworkScorer

    def __init__(self, config: NetworkConfig, kb: GraphsKB, device: torch.device) -> None:
        super().__init__(config, kb, device)
        self.rows = self.scorer.stack(self.train.instances)

    def _scorer(self) -> NetworkScorer:
        with following(self.generator, self.device):
            network = build_network(self.config, len(self.kb.predicates), len(self.kb.targets))
        return NetworkScorer(self.config, self.kb.predicates, self.kb.targets, network.to(self.device))

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        with following(self.generator, self.device):
            return super().train_epoch(on_step)

    def loss(self, rows: Int[Tensor, " graph"]) -> Float[Tensor, ""]:
        self.scorer.module.train()
        logarithms = self.scorer.module(self._batch(rows)).log_softmax(dim=1)
        return among_targets(logarithms, self.train.labels[rows], self.train.weights[rows])

    def _batch(self, rows: Int[Tensor, " graph"]) -> GraphRows:
        return self.rows[rows].with_names(self.config.names, self.config.few_names, self.generator)

    def validation_loss(self, scores: Float[Tensor, "graph target"]) -> Float[Tensor, ""]:
        return among_targets((scores + SCORE_FLOOR).log(), self.valid.labels, self.valid.weights)

    def model(self) -> NetworkModel:
        network = self.with_best_weights(self.scorer.module)
        return NetworkModel(NetworkScorer(self.config, self.kb.predicates, self.kb.targets, network))
