"""Looks at an unfinished model now and then, so that a curve can be shown where epochs are not validated."""

import time
from dataclasses import replace

from ctp_core.base.model import Model
from ctp_core.base.progress import Progress
from ctp_core.base.trainer import Trainer

SHARE = 0.05  # of the time, at most
LEAST_SECONDS = 2.0  # between two looks


class Glimpses:
    """The clock decides when to look: what is seen is shown, and nothing is learnt from it."""

    def __init__(self) -> None:
        self._due = time.monotonic() + LEAST_SECONDS

    def added(self, progress: Progress, trainer: Trainer[Model]) -> Progress:
        """The progress of an epoch, with metrics of a small sample if it has none and a look is due."""
        began = time.monotonic()
        if progress.metrics or trainer.finished or began < self._due:
            return progress
        metrics = trainer.sampled_metrics()
        ended = time.monotonic()
        self._due = ended + max(LEAST_SECONDS, (ended - began) / SHARE)
        return replace(progress, metrics=metrics)
