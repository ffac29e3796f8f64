"""Training on graphs: binary cross-entropy on the score of every target predicate, distinct graphs weighted."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ctp_core.artifact import Artifact
from ctp_core.config.base import BaseConfig
from ctp_core.config.ctp import CtpConfig
from ctp_core.datasets.isomorphism import WeightedGraph, canonical, distinct, number
from ctp_core.datasets.kb import Graph, GraphsKB, KnowledgeBase
from ctp_core.errors import ArtifactError, ConfigError, DataError
from ctp_core.models.ctp_graphs import CtpGraphsModel
from ctp_core.models.graph_reasoner import Batch, GraphReasoner, build_theory
from ctp_core.models.graph_rules import decode
from ctp_core.provers.batches import Instance
from ctp_core.rule_counts import with_counts
from ctp_core.shapes import Float
from ctp_core.training.gradient import State, under
from ctp_core.training.schedule import one_cycle
from ctp_core.training.trainer import OnStep, Progress, Trainer, ignore

# The logarithm of a score of 0 or 1 is kept finite; noisy-or and kernels do reach both.
SCORE_FLOOR = 1e-6
MIN_EPOCHS = 15  # whatever the number of steps: a graph seen less often than this has taught nothing yet
MIN_HELD_OUT = 20  # with fewer graphs than this, none can be spared for validation


@dataclass(frozen=True)
class Examples:
    """Graphs with the distribution of their labels, and how much each counts."""

    instances: list[Instance]
    labels: Float[Tensor, "graph target"]
    weights: Float[Tensor, " graph"]

    @classmethod
    def of(cls, graphs: Sequence[WeightedGraph], reasoner: GraphReasoner, power: float) -> "Examples":
        ids = {name: i for i, name in enumerate(reasoner.targets)}
        counts = torch.zeros(len(graphs), len(ids), device=reasoner.device)
        for row, graph in enumerate(graphs):
            for label, count in graph.labels:
                counts[row, ids[label]] = count
        total = counts.sum(dim=1)
        weights = total**power
        instances = [Instance.of(graph.graph, reasoner.predicates) for graph in graphs]
        return cls(instances, counts / total[:, None], weights / weights.mean() if len(graphs) else weights)


def read_graphs(graphs: Sequence[Graph], merge: bool) -> list[WeightedGraph]:
    """Distinct graphs with the counts of their labels, or every row for itself."""
    if merge:
        return distinct(graphs)
    return [WeightedGraph(canonical(number(g)[0]), ((g.label, 1),)) for g in graphs if g.label is not None]


def hold_out(graphs: list[WeightedGraph], share: float, seed: int) -> tuple[list[WeightedGraph], list[WeightedGraph]]:
    """(train, valid): some of the longest graphs, because it is on long ones that a model will be tried."""
    longest = max(len(graph.graph.edges) for graph in graphs)
    candidates = [i for i, graph in enumerate(graphs) if len(graph.graph.edges) == longest]
    count = int(share * len(graphs))
    if count == 0 or len(graphs) < MIN_HELD_OUT or len(candidates) < 2 * count:
        return graphs, []
    order = torch.randperm(len(candidates), generator=torch.Generator(device="cpu").manual_seed(seed), device="cpu")
    chosen = {candidates[i] for i in order[:count].tolist()}
    return [g for i, g in enumerate(graphs) if i not in chosen], [graphs[i] for i in sorted(chosen)]


def enough_epochs(config: CtpConfig, num_graphs: int) -> int:
    """Those of the config, or fewer where they make more steps than are enough."""
    if config.steps is None:
        return config.epochs
    per_epoch = math.ceil(num_graphs / config.batch_size)
    return min(config.epochs, max(MIN_EPOCHS, math.ceil(config.steps / per_epoch)))


class GraphsTrainer(Trainer):
    """Trains a CTP on a KB of graphs; keeps the weights with the lowest validation loss."""

    def __init__(self, config: BaseConfig, kb: KnowledgeBase, device: torch.device) -> None:
        if not isinstance(config, CtpConfig) or not isinstance(kb, GraphsKB):
            raise ConfigError("method ctp on graphs needs a config of method ctp and a KB of kind graphs")
        self.config, self.kb, self.device, self.epoch = config, kb, device, 0
        # One generator on the CPU for everything random: a seed means the same on every device.
        self.generator = torch.Generator(device="cpu").manual_seed(config.seed)
        theory = build_theory(config, kb.predicates, self.generator).to(device)
        self.reasoner = GraphReasoner(config, kb.predicates, kb.targets, theory)
        train, valid = self._split()
        self.train = Examples.of(train, self.reasoner, config.weight_power)
        self.valid = Examples.of(valid, self.reasoner, 1.0)
        self.valid_batch: Batch | None = self.reasoner.stack(self.valid.instances, config.depth) if valid else None
        self.epochs = enough_epochs(config, len(train))
        self.optimiser = self._optimiser()
        self.best: State = {}
        self.best_loss, self.stale = math.inf, 0

    def _split(self) -> tuple[list[WeightedGraph], list[WeightedGraph]]:
        train = read_graphs(self.kb.splits.get("train", ()), self.config.distinct)
        if not train:
            raise DataError("there are no labelled training graphs")
        if "valid" in self.kb.splits:
            return train, read_graphs(self.kb.splits["valid"], merge=True)
        return hold_out(train, self.config.validation, self.config.seed)

    def _optimiser(self) -> torch.optim.Optimizer:
        kind = torch.optim.Adagrad if self.config.optimiser == "adagrad" else torch.optim.Adam
        return kind(self.reasoner.theory.parameters(), lr=self.config.learning_rate)

    @property
    def finished(self) -> bool:
        exhausted = self.config.patience is not None and self.stale >= self.config.patience
        return self.epoch >= self.epochs or exhausted

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        order = torch.randperm(len(self.train.instances), generator=self.generator, device="cpu").to(self.device)
        batches = order.split(self.config.batch_size)  # type: ignore[no-untyped-call]
        steps, total = len(batches), 0.0
        for step, rows in enumerate(batches):
            total += self.step(rows, self._rate(self.epoch * steps + step, self.epochs * steps))
            on_step(Progress(self.epoch, self.epochs, step + 1, steps, total / (step + 1)))
        self.epoch += 1
        metrics = self._validate() if self.epoch % self.config.eval_every == 0 or self.epoch >= self.epochs else {}
        return Progress(self.epoch, self.epochs, steps, steps, total / steps, metrics)

    def _rate(self, step: int, steps: int) -> float:
        peak = self.config.learning_rate
        return one_cycle(step, steps, peak) if self.config.schedule == "one-cycle" else peak

    def step(self, rows: Tensor, rate: float) -> float:
        """One gradient step on these graphs."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        batch = self.reasoner.stack([self.train.instances[i] for i in rows.tolist()], self.config.train_depth)
        scores = self.reasoner.training_scores(batch)
        loss = cross_entropy(scores, self.train.labels[rows], self.train.weights[rows])
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.item()

    def _validate(self) -> dict[str, float]:
        if self.valid_batch is None:
            return {}
        scores = self.reasoner.scores(self.valid_batch)
        loss = float(cross_entropy(scores, self.valid.labels, self.valid.weights))
        self.stale += 1
        if loss < self.best_loss:
            self.best_loss, self.stale = loss, 0
            self.best = copy.deepcopy(self.reasoner.theory.state_dict())
        return {"accuracy": accuracy(scores, self.valid), "loss": loss}

    def checkpoint(self) -> Artifact:
        tensors = {f"module.{name}": tensor for name, tensor in self.reasoner.theory.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best.items()}
        for index, slots in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{slot}": value for slot, value in slots.items()}
        tensors["generator"] = self.generator.get_state()
        manifest = {
            "config": self.config.model_dump(mode="json"),
            "epoch": self.epoch,
            "best_loss": self.best_loss if math.isfinite(self.best_loss) else None,
            "stale": self.stale,
        }
        return Artifact(manifest, {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()})

    def restore(self, checkpoint: Artifact) -> None:
        if checkpoint.manifest.get("config") != self.config.model_dump(mode="json"):
            raise ArtifactError("the checkpoint was written by a run with another config")
        try:
            self.reasoner.theory.load_state_dict(under("module.", checkpoint))
            self._restore_optimiser(under("optimiser.", checkpoint))
            self.generator.set_state(checkpoint.tensors["generator"])
            best_loss = checkpoint.manifest["best_loss"]
            self.best_loss = math.inf if best_loss is None else best_loss
            self.epoch, self.stale = checkpoint.manifest["epoch"], checkpoint.manifest["stale"]
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            raise ArtifactError(f"the checkpoint does not fit this run: {error}") from None
        self.best = {name: tensor.to(self.device) for name, tensor in under("best.", checkpoint).items()}

    def _restore_optimiser(self, slots: State) -> None:
        state = self.optimiser.state_dict()
        state["state"] = {}
        for name, value in slots.items():
            index, slot = name.split(".", 1)
            state["state"].setdefault(int(index), {})[slot] = value.clone()
        self.optimiser.load_state_dict(state)

    def model(self) -> CtpGraphsModel:
        theory = copy.deepcopy(self.reasoner.theory)
        if self.best:
            theory.load_state_dict(self.best)
        theory.requires_grad_(False)
        reasoner = GraphReasoner(self.config, self.kb.predicates, self.kb.targets, theory)
        rules = decode(theory, self.kb.predicates, self.config.semiring, attention=self.config.select == "attentive")
        return CtpGraphsModel(reasoner, with_counts(rules, self.kb))


def cross_entropy(
    scores: Float[Tensor, "graph target"], labels: Float[Tensor, "graph target"], weights: Float[Tensor, " graph"]
) -> Float[Tensor, ""]:
    """Binary, summed over targets, weighted mean over graphs."""
    sure = scores.clamp(SCORE_FLOOR, 1 - SCORE_FLOOR)
    losses = -(labels * sure.log() + (1 - labels) * (1 - sure).log())
    return (losses.sum(dim=1) * weights).mean()


def accuracy(scores: Float[Tensor, "graph target"], examples: Examples) -> float:
    """The share of rows whose label gets the best score; equal scores go to the first target."""
    right = examples.labels.gather(1, scores.argmax(dim=1, keepdim=True))[:, 0]
    return float((right * examples.weights).sum() / examples.weights.sum())
