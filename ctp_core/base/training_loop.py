"""What all trainers by gradient share: epochs of steps, the best weights on validation, checkpoints."""

import copy
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from ctp_core.artifact import Artifact
from ctp_core.base.checkpoints import State, check_config, restore_tensors, state_tensors
from ctp_core.base.config import BaseConfig
from ctp_core.base.evaluation.ranking import ranking_metrics
from ctp_core.base.trainer import OnStep, Progress, Trainer, finite, ignore
from ctp_core.errors import ArtifactError
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.splits import FactsSplit


class GradientTrainer(Trainer):
    """On a KB of facts. A subclass makes `module`, `optimiser` and `generator`, then says what a step is."""

    config: BaseConfig
    kb: FactsKB
    device: torch.device
    split: FactsSplit
    module: nn.Module
    optimiser: torch.optim.Optimizer
    generator: torch.Generator
    eval_every: int
    epoch: int = 0
    best_mrr: float = -1.0
    made: float = 0.0  # the share of all steps of the run that lies behind

    def __init__(self, config: BaseConfig, kb: FactsKB, device: torch.device, eval_every: int) -> None:
        self.config, self.kb, self.device, self.eval_every = config, kb, device, eval_every
        self.epochs = config.epochs
        self.split = FactsSplit.of(kb)
        self.generator = torch.Generator().manual_seed(config.seed)
        self.best: State = {}

    @abstractmethod
    def batches(self) -> Sequence[Tensor]:
        """The steps of one epoch, in the order drawn from `generator`."""

    @abstractmethod
    def loss(self, batch: Tensor) -> Float[Tensor, ""]: ...

    @abstractmethod
    def learning_rate(self, step: int, steps: int) -> float:
        """At step `step` of all `steps` of the run."""

    @abstractmethod
    def ranks(self) -> Float[np.ndarray, " question"]:
        """Filtered ranks of the validation facts by the present weights."""

    @property
    def finished(self) -> bool:
        return self.epoch >= self.epochs

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        batches = self.batches()
        steps, total = len(batches), 0.0
        for step, batch in enumerate(batches):
            self.made = (self.epoch * steps + step) / (self.epochs * steps)
            total += self._step(batch, self.learning_rate(self.epoch * steps + step, self.epochs * steps))
            on_step(Progress(self.epoch, self.epochs, step + 1, steps, total / (step + 1)))
        self.epoch += 1
        metrics = self._validate() if self.finished or self.epoch % self.eval_every == 0 else {}
        return Progress(self.epoch, self.epochs, steps, steps, total / steps, metrics)

    def _step(self, batch: Tensor, learning_rate: float) -> float:
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate * group.get("share", 1.0)
            for parameter in group["params"]:
                parameter.grad = None  # as `zero_grad` does, at a tenth of its time
        loss = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return finite(loss.item())

    def _validate(self) -> dict[str, float]:
        if not len(self.split.valid):
            return {}
        with torch.no_grad():
            metrics = ranking_metrics(self.ranks())
        if metrics["mrr"] >= self.best_mrr:  # of equals the later, which is better calibrated
            self.best_mrr = metrics["mrr"]
            self.best = copy.deepcopy(self.module.state_dict())
        return metrics

    def best_module(self) -> nn.Module:
        """A frozen copy with the best weights so far, or the last ones where there is no validation."""
        module = copy.deepcopy(self.module)
        if self.best:
            module.load_state_dict(self.best)
        return module.requires_grad_(False)

    def checkpoint(self) -> Artifact:
        manifest = {"config": self.config.model_dump(mode="json"), "epoch": self.epoch, "best_mrr": self.best_mrr}
        return Artifact(manifest, state_tensors(self.module, self.best, self.optimiser, self.generator))

    def restore(self, checkpoint: Artifact) -> None:
        check_config(checkpoint, self.config)
        try:
            self.best = restore_tensors(checkpoint, self.module, self.optimiser, self.generator)
            self.epoch, self.best_mrr = checkpoint.manifest["epoch"], checkpoint.manifest["best_mrr"]
        except (KeyError, RuntimeError, ValueError) as error:
            raise ArtifactError(f"the checkpoint does not fit this run: {error}") from None
