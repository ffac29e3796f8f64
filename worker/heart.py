"""The heart of a running job: renews its lease, writes its progress, and notices when it must stop."""

import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError

from ctp_core.base.progress import Progress, Trial
from service.db.engine import Database
from service.settings import Settings
from service.training import lease, repository
from service.training.repository import Claim, LeaseLost
from worker.pace import Pace

log = structlog.get_logger()
SHOW_SECONDS = 0.5  # between two looks at the progress: a commit takes longer than a small step
SILENT_SECONDS = 2.0  # after which a progress without news is written again, with the time that has passed


class Released(Exception):
    """The worker must stop: the job goes back to the queue and has not failed."""


class Heart:
    """Beats in a thread of its own while the `with` block runs."""

    def __init__(self, database: Database, claim: Claim, settings: Settings, stop: threading.Event) -> None:
        self.database, self.claim, self.settings, self.told_to_stop = database, claim, settings, stop
        self.lost = False
        self.pace = Pace()
        self.trials: Sequence[Trial] = ()  # what the training has tried so far
        self._progress: Progress | None = None
        self._pacing = threading.Lock()
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

    def report(self, phase: str, part: int = 0, parts: int = 1) -> None:
        """Notes a phase of the job around its training, and checks as at every step."""
        at = self._progress or Progress(0, 0, 0, 1, None)
        self.check(replace(at, phase=phase, step=part, steps=parts))

    def values(self, progress: Progress) -> dict[str, Any]:
        """Returns the progress with what was tried so far, as shown to users."""
        with self._pacing:
            values = self.pace.values(progress)
        return values | ({"trials": [asdict(trial) for trial in self.trials]} if self.trials else {})

    def _beat(self) -> None:
        renewed = looked = told = time.monotonic()
        shown, pause = None, min(SHOW_SECONDS, self.settings.cancel_seconds, self.settings.heartbeat_seconds)
        while not self._done.wait(pause):
            now, progress = time.monotonic(), self._progress
            due = now - renewed >= self.settings.heartbeat_seconds
            news = progress if progress is not shown or now - told >= SILENT_SECONDS else None
            if not due and news is None and now - looked < self.settings.cancel_seconds:
                continue
            try:
                self._tell(due, news)
            except LeaseLost:
                self.lost = True
                return
            except SQLAlchemyError as error:
                # The database may come back before the lease expires; if not, the next renewal raises LeaseLost.
                log.warning("heartbeat_failed", error=str(error))
                continue
            looked, shown = now, progress
            told = told if news is None else now
            renewed = now if due else renewed

    def _tell(self, due: bool, progress: Progress | None) -> None:
        values = {} if progress is None else {"progress": self.values(progress)}
        if due:
            with self.database.write() as session:
                lease.renew(session, self.claim, self.settings.lease_seconds, **values)
        elif values:
            with self.database.write() as session:
                repository.write_held(session, self.claim, **values)
        else:
            with self.database.read() as session:
                repository.check_held(session, self.claim)
