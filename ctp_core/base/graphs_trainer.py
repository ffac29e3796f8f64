"""What all trainings on graphs share: losses, the split into examples, the loss on held-out graphs as validation."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

import torch

from ctp_core.base.config import GraphsConfig
from ctp_core.base.cost import enough_epochs
from ctp_core.base.graph_examples import Examples, accuracy, hold_out, read_graphs, stacked, understood
from ctp_core.base.graphs_model import GraphScorer, GraphsModel
from ctp_core.base.training_loop import Criterion, GradientTrainer, one_cycle
from ctp_core.errors import DataError
from ctp_core.kb.isomorphism import WeightedGraph
from ctp_core.kb.knowledge_base import GraphsKB
from ctp_core.shapes import Float, Int, Tensor

# Added to a score before its logarithm: a score of 0 keeps a finite loss, and one far below it keeps its slope, which
# a clamp would take away. A prover starts with scores of a product of several kernels, and so far below 1e-6.
SCORE_FLOOR = 1e-6

Scores = Float[Tensor, "graph target"]
Weights = Float[Tensor, " graph"]


def of_each_target(scores: Scores, labels: Scores, weights: Weights) -> Float[Tensor, ""]:
    """Binary cross-entropy of every target for itself, summed over targets."""
    losses = -(labels * (scores + SCORE_FLOOR).log() + (1 - labels) * (1 - scores + SCORE_FLOOR).log())
    return (losses.sum(dim=1) * weights).mean()


def among_targets(logarithms: Scores, labels: Scores, weights: Weights) -> Float[Tensor, ""]:
    """Cross-entropy of the label among all targets, from the logarithms of their chances."""
    return -((labels * logarithms).sum(dim=1) * weights).mean()


Graphs_co = TypeVar("Graphs_co", bound=GraphsModel, covariant=True)


class GraphsTrainer(GradientTrainer[Graphs_co]):
    """A subclass makes the scorer and says what its losses are; `depth` is that of its answers, where it has one.

    Keeps the weights with the lowest loss on the validation graphs.
    """

    criterion = Criterion("best_loss", "loss", lower=True)
    config: GraphsConfig

    def __init__(self, config: GraphsConfig, kb: GraphsKB, device: torch.device, depth: int | None = None) -> None:
        super().__init__(config, device, config.eval_every)
        self.kb, self.patience = kb, config.patience
        self.scorer = self._scorer()
        self.module = self.scorer.module
        train, valid = self._split()
        self.train = Examples.of(train, self.scorer, config.weight_power)
        self.valid = Examples.of(valid, self.scorer, 1.0)
        self.valid_batches = stacked(self.valid, self.scorer, depth)
        self.epochs = enough_epochs(config, len(train))
        kind = torch.optim.Adagrad if config.optimiser == "adagrad" else torch.optim.Adam
        self.optimiser = kind(self.module.parameters(), lr=config.learning_rate)

    @abstractmethod
    def _scorer(self) -> GraphScorer:
        """A scorer with fresh weights, which depend on the seed alone."""

    @abstractmethod
    def validation_loss(self, scores: Float[Tensor, "graph target"]) -> Float[Tensor, ""]:
        """The loss of the scores of all validation graphs."""

    def _split(self) -> tuple[list[WeightedGraph], list[WeightedGraph]]:
        train = read_graphs(self.kb.splits.get("train", ()), self.config.distinct)
        if not train:
            raise DataError("there are no labelled training graphs")
        if "valid" in self.kb.splits:
            valid = read_graphs(understood(self.kb.splits["valid"], self.kb.predicates), merge=True)
        else:
            train, valid = hold_out(train, self.config.validation, self.config.seed)
        # By length, because a batch is proved as deep as its longest graph needs, and a question as deep as its own.
        return train, sorted(valid, key=lambda weighted: len(weighted.graph.edges))

    def batches(self) -> Sequence[Tensor]:
        rows: Sequence[Tensor] = self._order().split(self.config.batch_size)  # type: ignore[no-untyped-call]
        return rows

    def _order(self) -> Int[Tensor, " graph"]:
        """The random order of the training graphs in this epoch."""
        return torch.randperm(len(self.train.instances), generator=self.generator, device="cpu").to(self.device)

    def learning_rate(self, step: int, steps: int) -> float:
        peak = self.config.learning_rate
        return one_cycle(step, steps, peak) if self.config.schedule == "one-cycle" else peak

    def validation(self) -> dict[str, float]:
        if not self.valid_batches:
            return {}
        scores = self.valid_scores()
        return {"accuracy": accuracy(scores, self.valid), "loss": float(self.validation_loss(scores))}

    def valid_scores(self) -> Float[Tensor, "graph target"]:
        """The scores of the validation graphs by the present weights."""
        scores = []
        for batch in self.valid_batches:
            scores.append(self.scorer.scores(batch))
            self.on_part(len(scores), len(self.valid_batches))
        return torch.cat(scores)
