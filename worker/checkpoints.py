"""When and how the checkpoints of a job are stored. What is in one says ctp_core/base/training_state.py.

Which of them are kept says service/training/retention.py.
"""

import time
from collections.abc import Callable

import structlog
from sqlalchemy.orm import Session

from ctp_core.artifact import encode
from ctp_core.base.model import Model
from ctp_core.base.trainer import Trainer
from service.db.tables import Checkpoint
from service.files.removals import remove_later
from service.files.storage import Storage, StorageError
from service.training import repository
from service.training.outcomes import checkpoint_owner
from service.training.repository import Claim
from service.training.retention import keep_checkpoints
from worker.epoch_buffer import EpochBuffer

log = structlog.get_logger()
Write = Callable[[Callable[[Session], None]], None]  # runs a transaction, again if need be


class Checkpoints:
    """Stores the checkpoints of one attempt: one every so many seconds, and one after the last epoch."""

    def __init__(self, claim: Claim, storage: Storage, write: Write, every_seconds: float) -> None:
        self._claim, self._storage, self._write, self._every_seconds = claim, storage, write, every_seconds
        self._saved_at = time.monotonic()

    def due(self, trainer: Trainer[Model]) -> bool:
        return trainer.finished or time.monotonic() - self._saved_at >= self._every_seconds

    def save(self, trainer: Trainer[Model], metrics: dict[str, float], epochs: EpochBuffer) -> None:
        """Stores the files, then the row with the epochs; if the storage fails, only this checkpoint is lost."""
        files = encode(trainer.checkpoint())
        try:
            key = self._storage.put(f"{checkpoint_owner(self._claim.job_id)}/{self._claim.attempt}", files)
        except StorageError as error:
            log.warning("checkpoint_not_saved", epoch=trainer.epoch, error=str(error))
            self._write(epochs.write)
        else:
            size = sum(map(len, files.values()))
            self._write(lambda session: self._record(session, self._row(trainer.epoch, key, size, metrics), epochs))
        epochs.written()
        self._saved_at = time.monotonic()

    def _row(self, epoch: int, key: str, num_bytes: int, metrics: dict[str, float]) -> Checkpoint:
        """A new one for each try of the transaction: a row of a try that failed cannot be added again."""
        job_id, attempt = self._claim.job_id, self._claim.attempt
        return Checkpoint(
            job_id=job_id, epoch=epoch, attempt=attempt, artifact=key, num_bytes=num_bytes, metrics=metrics
        )

    def _record(self, session: Session, row: Checkpoint, epochs: EpochBuffer) -> None:
        epochs.write(session)
        replaced = repository.record_checkpoint(session, self._claim, row)
        if replaced is not None and replaced.artifact != row.artifact:
            remove_later(session, replaced.artifact)
        keep_checkpoints(session, self._claim.job_id, running=True)
