"""How far a training is, in words that a waiting person understands, and what it tried before."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Progress:
    """Where a training run stands. `metrics` are of the validation data, empty between evaluations.

    `step` of `steps` is how far the phase is, or the epoch while fitting. `loss` is None in phases that have none, and
    where predicates are fitted one after another: the loss of one says nothing about the next. `done` is the share of
    the forecast work of the whole training that lies behind, from 0 to 1; None means that the epochs tell.
    """

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float | None
    metrics: dict[str, float] = field(default_factory=dict)
    phase: str = "fitting"  # a key of PHASES
    done: float | None = None


def share_done(progress: Progress) -> float:
    """The share of a training that lies behind, from 0 to 1; by its epochs where it forecasts no work."""
    if progress.done is not None:
        return progress.done
    # At the end of an epoch, `epoch` already counts it and `step` is the last, so the step must not count again.
    within = progress.step / progress.steps if progress.phase == "fitting" and progress.step < progress.steps else 0.0
    return min(1.0, (progress.epoch + within) / progress.epochs) if progress.epochs else 0.0


PHASES = {
    "loading": "reading the KB",
    "search": "trying settings",
    "mining": "mining rules",
    "fitting": "fitting",
    "constants": "weighing rules with constants",
    "calibration": "calibrating scores",
    "validation": "validating",
    "evaluation": "evaluating",
    "prediction": "predicting",
    "saving": "saving the model",
    "rules": "counting rules",
}


@dataclass(frozen=True)
class Trial:
    """Settings that were tried on the KB before training, what they reached on held-out facts, and their cost."""

    settings: dict[str, Any]
    metric: str
    value: float
    cpu_seconds: float  # forecast from the work done, so that it is the same on every machine
    chosen: bool = False


OnStep = Callable[[Progress], None]
OnPart = Callable[[int, int], None]  # told how many parts of a phase are done, and of how many


def ignore(progress: Progress) -> None:
    """The listener that does nothing."""


def unheard(part: int, parts: int) -> None:
    """The listener to parts that does nothing."""


def parts_of(phase: str, at: Progress, on_step: OnStep) -> OnPart:
    """A listener to the parts of a phase that reports them as steps of the training, which otherwise stands `at`."""
    return lambda part, parts: on_step(replace(at, phase=phase, step=part, steps=parts))
