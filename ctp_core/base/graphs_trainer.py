"""What all trainings on graphs share: losses, epochs, the weights with the lowest validation loss, checkpoints."""

import copy
import math
from abc import abstractmethod

import torch
from torch import nn

from ctp_core.artifact import Artifact
from ctp_core.base.checkpoints import State, check_config, restore_tensors, state_tensors
from ctp_core.base.config import GraphsConfig
from ctp_core.base.graph_examples import Examples, accuracy, hold_out, read_graphs, stacked
from ctp_core.base.graphs_model import GraphScorer
from ctp_core.base.schedule import one_cycle
from ctp_core.base.trainer import OnStep, Progress, Trainer, finite, ignore
from ctp_core.errors import ArtifactError, DataError
from ctp_core.kb.isomorphism import WeightedGraph
from ctp_core.kb.knowledge_base import Graph, GraphsKB
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


MIN_EPOCHS = 15  # whatever the number of steps: a graph seen less often than this has taught nothing yet


def enough_epochs(config: GraphsConfig, num_graphs: int) -> int:
    """Those of the config, or fewer where they make more steps than are enough."""
    if config.steps is None:
        return config.epochs
    per_epoch = math.ceil(num_graphs / config.batch_size)
    return min(config.epochs, max(MIN_EPOCHS, math.ceil(config.steps / per_epoch)))


class GraphTrainer(Trainer):
    """A subclass makes the scorer and says what its losses are; `depth` is that of its answers, where it has one."""

    config: GraphsConfig

    def __init__(self, config: GraphsConfig, kb: GraphsKB, device: torch.device, depth: int | None = None) -> None:
        self.config, self.kb, self.device, self.epoch = config, kb, device, 0
        # One generator on the CPU for everything random: a seed means the same on every device.
        self.generator = torch.Generator(device="cpu").manual_seed(config.seed)
        self.scorer = self._scorer()
        train, valid = self._split()
        self.train = Examples.of(train, self.scorer, config.weight_power)
        self.valid = Examples.of(valid, self.scorer, 1.0)
        self.valid_batches = stacked(self.valid, self.scorer, depth)
        self.epochs = enough_epochs(config, len(train))
        kind = torch.optim.Adagrad if config.optimiser == "adagrad" else torch.optim.Adam
        self.optimiser = kind(self.scorer.module.parameters(), lr=config.learning_rate)
        self.best: State = {}
        self.best_loss, self.stale = math.inf, 0

    @abstractmethod
    def _scorer(self) -> GraphScorer:
        """With fresh weights, which depend on the seed alone."""

    @abstractmethod
    def loss(self, rows: Int[Tensor, " graph"]) -> Float[Tensor, ""]:
        """Of some training graphs, with a gradient."""

    @abstractmethod
    def validation_loss(self, scores: Float[Tensor, "graph target"]) -> Float[Tensor, ""]:
        """Of the scores of all validation graphs."""

    def _split(self) -> tuple[list[WeightedGraph], list[WeightedGraph]]:
        train = read_graphs(self.kb.splits.get("train", ()), self.config.distinct)
        if not train:
            raise DataError("there are no labelled training graphs")
        if "valid" in self.kb.splits:
            valid = read_graphs(filter(self._answerable, self.kb.splits["valid"]), merge=True)
        else:
            train, valid = hold_out(train, self.config.validation, self.config.seed)
        # By length, because a batch is proved as deep as its longest graph needs, and a question as deep as its own.
        return train, sorted(valid, key=lambda weighted: len(weighted.graph.edges))

    def _answerable(self, graph: Graph) -> bool:
        """Whether training saw all its predicates: what no weights can answer does not tell them apart."""
        return all(fact.predicate in self.kb.predicates for fact in graph.facts)

    @property
    def finished(self) -> bool:
        exhausted = self.config.patience is not None and self.stale >= self.config.patience
        return self.epoch >= self.epochs or exhausted

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        batches = self._order().split(self.config.batch_size)  # type: ignore[no-untyped-call]
        steps, total = len(batches), 0.0
        for step, rows in enumerate(batches):
            total += self.step(rows, self._rate(self.epoch * steps + step, self.epochs * steps))
            on_step(Progress(self.epoch, self.epochs, step + 1, steps, total / (step + 1)))
        self.epoch += 1
        metrics = self._validate() if self.epoch % self.config.eval_every == 0 or self.epoch >= self.epochs else {}
        return Progress(self.epoch, self.epochs, steps, steps, total / steps, metrics)

    def _order(self) -> Int[Tensor, " graph"]:
        """Of the training graphs in this epoch."""
        return torch.randperm(len(self.train.instances), generator=self.generator, device="cpu").to(self.device)

    def _rate(self, step: int, steps: int) -> float:
        peak = self.config.learning_rate
        return one_cycle(step, steps, peak) if self.config.schedule == "one-cycle" else peak

    def step(self, rows: Int[Tensor, " graph"], rate: float) -> float:
        """One gradient step on these graphs."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        loss = self.loss(rows)
        if not loss.requires_grad:
            return finite(loss.item())  # none of these graphs can be proved at all: others teach
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return finite(loss.item())

    def _validate(self) -> dict[str, float]:
        if not self.valid_batches:
            return {}
        scores = self.valid_scores()
        loss = float(self.validation_loss(scores))
        self.stale = 0 if loss < self.best_loss else self.stale + 1
        if loss <= self.best_loss:  # of equals the later, which has learnt more from the rest
            self.best_loss = loss
            self.best = copy.deepcopy(self.scorer.module.state_dict())
        return {"accuracy": accuracy(scores, self.valid), "loss": loss}

    def valid_scores(self) -> Float[Tensor, "graph target"]:
        """Of the validation graphs by the present weights."""
        return torch.cat([self.scorer.scores(batch) for batch in self.valid_batches])

    def best_module(self) -> nn.Module:
        """A frozen copy with the best weights so far, or the last ones where there is no validation."""
        module = copy.deepcopy(self.scorer.module)
        if self.best:
            module.load_state_dict(self.best)
        return module.requires_grad_(False)

    def checkpoint(self) -> Artifact:
        manifest = {
            "config": self.config.model_dump(mode="json"),
            "epoch": self.epoch,
            "best_loss": self.best_loss if math.isfinite(self.best_loss) else None,
            "stale": self.stale,
        }
        return Artifact(manifest, state_tensors(self.scorer.module, self.best, self.optimiser, self.generator))

    def restore(self, checkpoint: Artifact) -> None:
        check_config(checkpoint, self.config)
        try:
            self.best = restore_tensors(checkpoint, self.scorer.module, self.optimiser, self.generator)
            best_loss = checkpoint.manifest["best_loss"]
            self.best_loss = math.inf if best_loss is None else best_loss
            self.epoch, self.stale = checkpoint.manifest["epoch"], checkpoint.manifest["stale"]
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            raise ArtifactError(f"the checkpoint does not fit this run: {error}") from None
