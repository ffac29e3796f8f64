"""Training the prover on graphs: binary cross-entropy on the score of every target predicate."""

import torch

from ctp_core.config.base import BaseConfig
from ctp_core.config.ctp import CtpConfig
from ctp_core.datasets.kb import GraphsKB, KnowledgeBase
from ctp_core.errors import ConfigError
from ctp_core.models.ctp_graphs import CtpGraphsModel
from ctp_core.models.graph_reasoner import GraphReasoner, build_theory
from ctp_core.models.graph_rules import decode
from ctp_core.provers.theory import Theory
from ctp_core.rule_counts import with_counts
from ctp_core.shapes import Float, Int, Tensor
from ctp_core.training.graph_losses import of_each_target
from ctp_core.training.graph_trainer import GraphTrainer


class GraphsTrainer(GraphTrainer):
    """Trains a CTP on a KB of graphs."""

    config: CtpConfig
    scorer: GraphReasoner

    def __init__(self, config: BaseConfig, kb: KnowledgeBase, device: torch.device) -> None:
        if not isinstance(config, CtpConfig) or not isinstance(kb, GraphsKB):
            raise ConfigError("method ctp on graphs needs a config of method ctp and a KB of kind graphs")
        super().__init__(config, kb, device, config.depth)

    def _scorer(self) -> GraphReasoner:
        theory = build_theory(self.config, self.kb.predicates, self.generator).to(self.device)
        return GraphReasoner(self.config, self.kb.predicates, self.kb.targets, theory)

    def loss(self, rows: Int[Tensor, " graph"]) -> Float[Tensor, ""]:
        batch = self.scorer.stack([self.train.instances[i] for i in rows.tolist()], self.config.train_depth)
        scores = self.scorer.training_scores(batch)
        return of_each_target(scores, self.train.labels[rows], self.train.weights[rows])

    def validation_loss(self, scores: Float[Tensor, "graph target"]) -> Float[Tensor, ""]:
        return of_each_target(scores, self.valid.labels, self.valid.weights)

    def model(self) -> CtpGraphsModel:
        theory = self.best_module()
        assert isinstance(theory, Theory)
        reasoner = GraphReasoner(self.config, self.kb.predicates, self.kb.targets, theory)
        rules = decode(theory, self.kb.predicates, self.config.semiring, attention=self.config.select == "attentive")
        return CtpGraphsModel(reasoner, with_counts(rules, self.kb))
