"""Trains the prover on graphs, by binary cross-entropy on the score of every target predicate."""

from collections.abc import Iterable
from dataclasses import replace

import torch

from ctp_core.base.graphs_trainer import GraphsTrainer, of_each_target
from ctp_core.base.rule_counts import with_counts
from ctp_core.ctp_graphs.batches import LayeredBatch
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.ctp_graphs.exact import largest_table
from ctp_core.ctp_graphs.model import CtpGraphsModel
from ctp_core.ctp_graphs.reasoner import GraphReasoner, build_theory
from ctp_core.ctp_graphs.rules import decode, decode_merged
from ctp_core.errors import ConfigError, DataError
from ctp_core.kb.graphs import joined
from ctp_core.kb.knowledge_base import GraphsKB
from ctp_core.rules import Rule, by_what_they_explain
from ctp_core.shapes import Float, Int, Tensor

MAX_TRAINED_CELLS = 1 << 27  # numbers in one table of the recursion: 512 MB, and the gradient needs several


class CtpGraphsTrainer(GraphsTrainer[CtpGraphsModel]):
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
            found = self.scorer.training_scores(self.scorer.stack(some, self.config.train_depth))
            if any(scores.requires_grad and bool((scores > 0).any()) for scores in found):
                return
        apart = sum(not joined(graph) for graph in self.kb.splits["train"])
        raise DataError(
            f"no training graph teaches anything: by templates {' '.join(dict.fromkeys(self.config.templates))} at "
            f"train_depth {self.config.train_depth} nothing can be proved about the pair of any of them (in {apart} of "
            f"{len(self.kb.splits['train'])} no path joins the pair)"
        )

    def _scorer(self) -> GraphReasoner:
        module = build_theory(self.config, self.kb.predicates, self.generator).to(self.device)
        return GraphReasoner(self.config, self.kb.predicates, self.kb.targets, module)

    def loss(self, rows: Int[Tensor, " graph"]) -> Float[Tensor, ""]:
        batch = self.scorer.stack([self.train.instances[i] for i in rows.tolist()], self.config.train_depth)
        labels, weights = self.train.labels[rows], self.train.weights[rows]
        losses = [of_each_target(scores, labels, weights) for scores in self.scorer.training_scores(batch)]
        # Members share no parameter, so each follows its own loss; Adam and Adagrad do not mind the common factor.
        return losses[0] if len(losses) == 1 else torch.stack(losses).mean()

    def validation_loss(self, scores: Float[Tensor, "graph target"]) -> Float[Tensor, ""]:
        return of_each_target(scores, self.valid.labels, self.valid.weights)

    def model(self) -> CtpGraphsModel:
        reasoner = GraphReasoner(
            self.config, self.kb.predicates, self.kb.targets, self.with_best_weights(self.scorer.module)
        )
        if self.config.theories == 1:
            rules = decode(reasoner.theory, self.kb.predicates, reasoner.tnorm, attention=reasoner.attention)
        else:
            rules = decode_merged(reasoner.closed, self.kb.predicates, reasoner.tnorm)
        return CtpGraphsModel(reasoner, by_what_they_explain(self._counted(rules)))

    def _counted(self, rules: Iterable[Rule]) -> list[Rule]:
        """With counts, but the model's own confidence: a step of a proof is rarely the label of a graph."""
        decoded = list(rules)
        counted = with_counts(decoded, self.kb)
        return [replace(rule, confidence=own.confidence) for rule, own in zip(counted, decoded, strict=True)]
