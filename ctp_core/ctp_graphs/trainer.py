"""Trains the prover on graphs, by binary cross-entropy on the score of every target predicate."""

import torch

from ctp_core.base.graphs_trainer import GraphsTrainer, of_each_target
from ctp_core.base.rule_counts import with_counts
from ctp_core.ctp_graphs.batches import LayeredBatch
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.ctp_graphs.exact import largest_table
from ctp_core.ctp_graphs.model import CtpGraphsModel
from ctp_core.ctp_graphs.reasoner import GraphReasoner, build_theory
from ctp_core.ctp_graphs.rules import decode
from ctp_core.ctp_graphs.theory import Theory
from ctp_core.errors import ConfigError, DataError
from ctp_core.kb.graphs import joined
from ctp_core.kb.knowledge_base import GraphsKB
from ctp_core.shapes import Float, Int, Tensor

MAX_TRAINED_CELLS = 1 << 27  # numbers in one table of the recursion: 512 MB, and the gradient needs several


class CtpGraphsTrainer(GraphsTrainer):
    """Trains a CTP on a KB of graphs."""

    config: CtpGraphsConfig
    scorer: GraphReasoner

    def __init__(self, config: CtpGraphsConfig, kb: GraphsKB, device: torch.device) -> None:
        super().__init__(config, kb, device, config.depth)
        if config.prover == "exact":
            self._check_size()
        self._check_lessons()

    def _check_size(self) -> None:
        """Raises ConfigError where the recursion of the largest batch would not fit into memory."""
        by_size = sorted(self.train.instances, key=lambda instance: -len(instance.facts))
        batch = self.scorer.stack(by_size[: self.config.batch_size], self.config.train_depth)
        assert isinstance(batch, LayeredBatch)
        cells = largest_table(batch, self.scorer.theory, len(self.kb.targets))
        if cells > MAX_TRAINED_CELLS:
            raise ConfigError(
                f"{len(self.config.templates)} templates at train_depth {self.config.train_depth} make tables of "
                f"{cells:,} numbers for {self.config.batch_size} graphs, but at most {MAX_TRAINED_CELLS:,} fit: use "
                "less depth, fewer or shorter templates, a smaller batch_size, or prover tabled"
            )

    def _check_lessons(self) -> None:
        """Raises DataError where no rule can prove anything about the pair of any training graph."""
        for start in range(0, len(self.train.instances), self.config.batch_size):
            some = self.train.instances[start : start + self.config.batch_size]
            scores = self.scorer.training_scores(self.scorer.stack(some, self.config.train_depth))
            if scores.requires_grad and bool((scores > 0).any()):
                return
        apart = sum(not joined(graph) for graph in self.kb.splits["train"])
        raise DataError(
            f"no training graph teaches anything: by templates {' '.join(dict.fromkeys(self.config.templates))} at "
            f"train_depth {self.config.train_depth} nothing can be proved about the pair of any of them (in {apart} of "
            f"{len(self.kb.splits['train'])} no path joins the pair)"
        )

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
        rules = decode(theory, self.kb.predicates, reasoner.tnorm, attention=self.config.select == "attentive")
        return CtpGraphsModel(reasoner, with_counts(rules, self.kb))
