"""Collects the epochs of a job that are not in the database yet, so that short ones are written together."""

import time
from typing import Any

from sqlalchemy.orm import Session

from service.training import repository
from service.training.repository import Claim

# A commit takes longer than a small epoch.
WRITE_EVERY_SECONDS = 0.5


class EpochBuffer:
    """Call `note` after each epoch, and `write` when `due` and with every checkpoint.

    Epochs before a checkpoint are never run again, so they must be written with it.
    """

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self._unwritten: dict[int, dict[str, Any]] = {}
        self._written_at = float("-inf")

    @property
    def due(self) -> bool:
        return time.monotonic() - self._written_at >= WRITE_EVERY_SECONDS

    def note(self, progress: dict[str, Any]) -> None:
        self._unwritten[progress["epoch"]] = progress

    def write(self, session: Session) -> None:
        """Writes the collected epochs; raises LeaseLost. May be repeated if the transaction is repeated."""
        for progress in self._unwritten.values():
            repository.record_epoch(session, self.claim, progress)

    def written(self) -> None:
        """Forgets the written epochs; call it after the transaction of `write` has committed."""
        self._unwritten, self._written_at = {}, time.monotonic()
