"""The one training loop: epochs of steps, rates, the best weights on validation, early stopping, checkpoints."""

import copy
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar, NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ctp_core.artifact import Artifact
from ctp_core.base.config import BaseConfig
from ctp_core.base.progress import OnPart, OnStep, Progress, ignore, parts_of, unheard
from ctp_core.base.trainer import Learnt_co, Trainer, finite
from ctp_core.base.training_state import State, check_config, restore_tensors, state_tensors
from ctp_core.errors import ArtifactError

Module = TypeVar("Module", bound=nn.Module)
SEEDS = 2**62
WARM_UP = 0.3  # share of the steps in which the rate rises
START_DIVISOR, END_DIVISOR = 25.0, 1e4


class Criterion(NamedTuple):
    """The validation metric by which the best weights are chosen."""

    name: str  # of the best value in checkpoints
    metric: str
    lower: bool  # is better

    def better(self, value: float, than: float) -> bool:
        return value < than if self.lower else value > than


class GradientTrainer(Trainer[Learnt_co]):
    """A subclass makes `module` and `optimiser`, then says what batches, a loss and a validation are."""

    criterion: ClassVar[Criterion]
    module: nn.Module
    optimiser: torch.optim.Optimizer
    patience: int | None = None  # validations without improvement before it stops

    def __init__(self, config: BaseConfig, device: torch.device, eval_every: int) -> None:
        self.config, self.device, self.eval_every = config, device, eval_every
        self.epoch, self.epochs = 0, config.epochs
        # One generator on the CPU for everything random: a seed means the same on every device.
        self.generator = torch.Generator(device="cpu").manual_seed(config.seed)
        self.made = 0.0  # the share of all steps of the run that lies behind
        self.best: State = {}
        self.best_value: float | None = None  # of no validation yet
        self.stale = 0
        self.on_part: OnPart = unheard  # hears how far a validation is

    @abstractmethod
    def batches(self) -> Sequence[Tensor]:
        """The steps of one epoch, in the order drawn from `generator`."""

    @abstractmethod
    def loss(self, batch: Tensor) -> Float[Tensor, ""]:
        """The loss of a batch, with a gradient unless nothing can be learnt from the batch."""

    @abstractmethod
    def learning_rate(self, step: int, steps: int) -> float:
        """The learning rate at step `step` of the run's `steps`."""

    @abstractmethod
    def validation(self) -> dict[str, float]:
        """Metrics of the present weights, that of the criterion among them; none without validation data."""

    @property
    def finished(self) -> bool:
        exhausted = self.patience is not None and self.stale >= self.patience
        return self.epoch >= self.epochs or exhausted

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        batches = self.batches()
        steps, total = len(batches), 0.0
        for step, batch in enumerate(batches):
            self.made = (self.epoch * steps + step) / (self.epochs * steps)
            total += self.step(batch, self.learning_rate(self.epoch * steps + step, self.epochs * steps))
            on_step(Progress(self.epoch, self.epochs, step + 1, steps, total / (step + 1)))
        self.epoch += 1
        progress = Progress(self.epoch, self.epochs, steps, steps, total / steps)
        if self.epoch < self.epochs and self.epoch % self.eval_every != 0:
            return progress
        self.on_part = parts_of("validation", progress, on_step)
        self.on_part(0, 1)
        metrics = self.validate()
        self.on_part = unheard  # a trainer keeps no listener
        return replace(progress, metrics=metrics)

    def step(self, batch: Tensor, learning_rate: float) -> float:
        """One gradient step; returns its loss."""
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate * group.get("share", 1.0)
            for parameter in group["params"]:
                parameter.grad = None  # as `zero_grad` does, at a tenth of its time
        loss = self.loss(batch)
        if loss.requires_grad:  # else none of these graphs can be proved at all: others teach
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()
        return finite(loss.item())

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Keeps the present weights where they are as good as the best ones."""
        metrics = self.validation()
        if not metrics:
            return {}
        value, best = metrics[self.criterion.metric], self.best_value
        self.stale = 0 if best is None or self.criterion.better(value, best) else self.stale + 1
        if best is None or not self.criterion.better(best, value):  # of equals the later, which has learnt more
            self.best_value = value
            self.best = copy.deepcopy(self.module.state_dict())
        return metrics

    def with_best_weights(self, module: Module) -> Module:
        """A frozen copy of `module`, the trained one, with its best weights so far; the last ones without validation.

        The caller passes the module, whose class it knows.
        """
        best = copy.deepcopy(module)
        if self.best:
            best.load_state_dict(self.best)
        return best.requires_grad_(False)

    def checkpoint(self) -> Artifact:
        manifest = {
            "config": self.config.model_dump(mode="json"),
            "epoch": self.epoch,
            self.criterion.name: self.best_value,
            "stale": self.stale,
        }
        return Artifact(manifest, state_tensors(self.module, self.best, self.optimiser, self.generator))

    def restore(self, checkpoint: Artifact) -> None:
        check_config(checkpoint, self.config)
        try:
            self.best = restore_tensors(checkpoint, self.module, self.optimiser, self.generator)
            self.epoch, self.best_value = checkpoint.manifest["epoch"], checkpoint.manifest[self.criterion.name]
            self.stale = checkpoint.manifest.get("stale", 0)  # of facts, checkpoints of version 0.1.0 have none
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            raise ArtifactError(f"the checkpoint does not fit this run: {error}") from None


@contextmanager
def following(generator: torch.Generator, device: torch.device) -> Iterator[None]:
    """Within, torch's own generator, which layers and dropout draw from, starts at a seed that `generator` gave.

    Afterwards its state is what it was before.
    """
    seed = int(torch.randint(SEEDS, (1,), generator=generator))
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


# Learning rates are functions of the step, so that a checkpoint needs no state of a scheduler.


def one_cycle(step: int, steps: int, peak: float) -> float:
    """Rises from peak/25 to peak along a cosine, then falls to almost nothing."""
    rise = max(1.0, WARM_UP * steps)
    if step < rise:
        return _cosine(peak / START_DIVISOR, peak, step / rise)
    return _cosine(peak, peak / END_DIVISOR, min(1.0, (step - rise) / max(1.0, steps - rise)))


def constant_then_falling(step: int, steps: int, rate: float, falling: float) -> float:
    """The rate, and in the last `falling` (a share) of the steps a straight line from it to nothing."""
    return rate * min(1.0, (steps - step) / (falling * steps)) if falling else rate


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
