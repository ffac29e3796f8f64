"""The training contract: epoch by epoch, so that the caller may report, save and stop in between."""

import math
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import torch

from ctp_core.artifact import Artifact
from ctp_core.base.config import BaseConfig
from ctp_core.base.model import Model
from ctp_core.base.progress import OnStep, Progress, Trial, ignore
from ctp_core.errors import ConfigError
from ctp_core.kb.knowledge_base import KnowledgeBase

__all__ = ["OnStep", "Progress", "Trainer", "Trial", "finite", "ignore"]

Learnt_co = TypeVar("Learnt_co", bound=Model, covariant=True)


def finite(loss: float) -> float:
    """The loss itself; raises ConfigError where it is not finite: no later step recovers from that."""
    if not math.isfinite(loss):
        raise ConfigError(f"the training diverged, its loss is {loss}: use a lower learning_rate")
    return loss


class Trainer(ABC, Generic[Learnt_co]):
    """Trains one model from a config (which holds the seed) and a KB.

    Same config, KB, device and thread count: the same weights, bit for bit, also when the run was
    interrupted after any epoch and went on from its checkpoint in another process.
    """

    epochs: int
    epoch: int  # finished epochs

    @abstractmethod
    def __init__(self, config: BaseConfig, kb: KnowledgeBase, device: torch.device) -> None:
        """Raises ConfigError or DataError where nothing can be learnt; takes no long time."""

    @property
    def trials(self) -> tuple[Trial, ...]:
        """What was tried so far to find the settings; nothing where they were given."""
        return ()

    def sampled_metrics(self) -> dict[str, float]:
        """Metrics of the unfinished model on a small sample of the validation data, to be shown while it trains.

        Empty where epochs are validated anyway. Changes nothing: whoever trains may ask as often as there is time.
        """
        return {}

    @property
    @abstractmethod
    def finished(self) -> bool:
        """All epochs done, or stopped early."""

    @abstractmethod
    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        """Trains and evaluates one epoch. What `on_step` raises ends the epoch and leaves the trainer unusable."""

    @abstractmethod
    def checkpoint(self) -> Artifact:
        """Weights, optimiser, random states, early-stopping state: all that `restore` needs."""

    @abstractmethod
    def restore(self, checkpoint: Artifact) -> None:
        """Goes back to where `checkpoint` was taken; raises ArtifactError where it does not fit."""

    @abstractmethod
    def model(self) -> Learnt_co:
        """The best model so far by validation, or the last one where there is no validation data."""

    def ranking_model(self) -> Learnt_co:
        """The same as `model` for ranking only: its scores need not be probabilities, so that it is made at once."""
        return self.model()

    def fit(self, on_epoch: OnStep = ignore) -> Learnt_co:
        """Trains to the end."""
        while not self.finished:
            on_epoch(self.train_epoch())
        return self.model()
