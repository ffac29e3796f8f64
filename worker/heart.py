"""The heart of a running job: renews its lease, writes its progress, and notices when it must stop."""

import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError

from ctp_core.base.trainer import Progress
from service.db.engine import Database
from service.settings import Settings
from service.training import lease, repository
from service.training.repository import Claim, LeaseLost

log = structlog.get_logger()


class Released(Exception):
    """The worker must stop: the job goes back to the queue and has not failed."""


@dataclass
class Pace:
    """Estimates the time left from the epochs that this run has done since it began at epoch `begun_at`."""

    begun_at: int = 0
    started: float = field(default_factory=time.monotonic)

    def values(self, progress: Progress) -> dict[str, Any]:
        """Returns the progress with the time left, as shown to users."""
        # At the end of an epoch, `epoch` already counts it and `step` is the last, so the step must not count again.
        within = progress.step / progress.steps if 0 < progress.step < progress.steps else 0.0
        done = progress.epoch + within - self.begun_at
        left = progress.epochs - progress.epoch - within
        eta = (time.monotonic() - self.started) / done * left if done > 0 else None
        return {**asdict(progress), "eta_seconds": None if eta is None else round(eta, 1)}


class Heart:
    """Beats in a thread of its own while the `with` block runs."""

    def __init__(self, database: Database, claim: Claim, settings: Settings, stop: threading.Event) -> None:
        self.database, self.claim, self.settings, self.told_to_stop = database, claim, settings, stop
        self.lost = False
        self.pace = Pace()
        self._progress: Progress | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heart", daemon=True)

    def __enter__(self) -> "Heart":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def unheard(self) -> bool:
        """Tells whether the lease is lost but the block has not ended yet."""
        return self.lost and not self._done.is_set()

    def check(self, progress: Progress | None = None) -> None:
        """Notes the progress; raises LeaseLost or Released if the training must end. Called at every step."""
        self._progress = progress or self._progress
        if self.lost:
            raise LeaseLost(self.claim.job_id)
        if self.told_to_stop.is_set():
            raise Released

    def _beat(self) -> None:
        renewed, shown = time.monotonic(), None
        while not self._done.wait(min(self.settings.cancel_seconds, self.settings.heartbeat_seconds)):
            due, progress = time.monotonic() - renewed >= self.settings.heartbeat_seconds, self._progress
            try:
                self._tell(due, progress if progress is not shown else None)
            except LeaseLost:
                self.lost = True
                return
            except SQLAlchemyError as error:
                # The database may come back before the lease expires; if not, the next renewal raises LeaseLost.
                log.warning("heartbeat_failed", error=str(error))
                continue
            shown = progress
            renewed = time.monotonic() if due else renewed

    def _tell(self, due: bool, progress: Progress | None) -> None:
        values = {} if progress is None else {"progress": self.pace.values(progress)}
        if due:
            with self.database.write() as session:
                lease.renew(session, self.claim, self.settings.lease_seconds, **values)
        elif values:
            with self.database.write() as session:
                repository.write_held(session, self.claim, **values)
        else:
            with self.database.read() as session:
                repository.check_held(session, self.claim)
