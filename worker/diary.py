"""The epochs of a job that are not in the database yet: short ones are written several at once."""

import time
from typing import Any

from sqlalchemy.orm import Session

from service.training import repository
from service.training.repository import Claim

# A commit costs more than a small epoch.
DIARY_SECONDS = 0.5


class Diary:
    """`note` each epoch, `write` them where `due`, and with every checkpoint: what is behind one is never run again."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self._unwritten: dict[int, dict[str, Any]] = {}
        self._written_at = float("-inf")

    @property
    def due(self) -> bool:
        return time.monotonic() - self._written_at >= DIARY_SECONDS

    def note(self, progress: dict[str, Any]) -> None:
        self._unwritten[progress["epoch"]] = progress

    def write(self, session: Session) -> None:
        """Raises LeaseLost where the job is not ours any more. To be repeated where the transaction is."""
        for progress in self._unwritten.values():
            repository.record_epoch(session, self.claim, progress)

    def written(self) -> None:
        """The transaction of `write` was committed."""
        self._unwritten, self._written_at = {}, time.monotonic()
