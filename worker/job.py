"""Runs a job of any type from its claim to its end: cancellable and fenced.

Fenced means that an attempt which has lost its lease can write nothing more.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeVar

import structlog
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session

from ctp_core.errors import CtpError
from service.db.engine import Database
from service.db.tables import Job
from service.facts.files import KbFiles
from service.files.storage import Storage, StorageAway, StorageError
from service.files.stores import make_storage
from service.settings import Settings
from service.training import capacity, lease, outcomes, repository
from service.training.repository import Claim, LeaseLost
from worker import memory
from worker.heart import Heart, Released
from worker.names import worker_name

log = structlog.get_logger()
T = TypeVar("T")
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.2, 5.0


class JobRunner(ABC):
    """Runs jobs in this process, one at a time; `stop` is set when the process must end."""

    rows_are_kept: ClassVar[bool] = True  # so that a job without a row is not one of this service

    def __init__(self, settings: Settings, stop: threading.Event | None = None) -> None:
        self.settings = settings
        self.database = Database(settings.database)
        self.storage: Storage = make_storage(settings)
        self.files = KbFiles.of(settings, self.storage)
        self.stop = stop or threading.Event()
        self.worker = worker_name()
        self._heart: Heart | None = None

    @abstractmethod
    def work(self, job: Job, claim: Claim, heart: Heart) -> None:
        """Does the job and records its end; raises what `_end` knows of, or what `crashed` tells."""

    @abstractmethod
    def crashed(self, claim: Claim, error: Exception) -> None:
        """Fails the job because of a fault that nobody has foreseen."""

    def claim(self, session: Session, job_id: str) -> Claim | None:
        """Claims the job that a message names; None if it is not to be had."""
        return lease.claim(session, job_id, self.worker, self.settings.lease_seconds)

    @abstractmethod
    def clean_up(self, job: Job, claim: Claim) -> None:
        """Undoes what an attempt that has lost its lease leaves behind."""

    @property
    def clings(self) -> bool:
        """Tells whether the work goes on although its lease is lost."""
        return self._heart is not None and self._heart.unheard

    def run(self, job_id: str) -> None:
        """Does the job if it can still be claimed; never raises for a failure of the job itself."""
        structlog.contextvars.bind_contextvars(job_id=job_id)
        try:
            self._run(job_id)
        except Released:
            log.warning(
                "job_left",
                reason="told to stop while the database was away: the job is taken back when its lease expires",
            )

    def _run(self, job_id: str) -> None:
        claim = self._write(lambda session: self.claim(session, job_id))
        if claim is None:
            if self.rows_are_kept and self._read(lambda session: session.get(Job, job_id)) is None:
                log.error("job_unknown", hint="does another service use this Redis? give each its own CTP_REDIS_URL")
            log.info("job_not_to_be_had")
            return
        structlog.contextvars.bind_contextvars(job_id=claim.job_id)
        log.info("job_started", attempt=claim.attempt)
        job = self._read(lambda session: session.get_one(Job, claim.job_id))
        self._heart = heart = Heart(self.database, claim, self.settings, self.stop)
        try:
            with heart:
                self._end(claim, lambda: self.work(job, claim, heart))
        except LeaseLost:
            log.warning("lease_lost", attempt=claim.attempt)
            self.clean_up(job, claim)

    def _end(self, claim: Claim, work: Callable[[], None]) -> None:
        """Works and records how the job ended, whatever happens; raises LeaseLost if the claim no longer holds."""
        try:
            work()
        except LeaseLost:
            raise
        except Released:
            self._write(lambda session: lease.release(session, claim))
            log.info("job_released")
        except (CtpError, StorageError) as error:
            self._fail(claim, error.code, str(error))
        except Exception as error:
            if memory.is_out_of_memory(error):
                self._fail_for_memory(claim)
                return
            self.crashed(claim, error)

    def _fail(self, claim: Claim, code: str, detail: str) -> None:
        error = {"code": code, "detail": detail}
        self._write(lambda session: outcomes.fail(session, claim, error))
        log.info("job_failed", code=code)

    def _fail_for_memory(self, claim: Claim) -> None:
        limit = memory.own_limit()
        memory.lift()  # what the job holds is freed only after this, and the report needs memory too

        def fail(session: Session) -> None:
            outcomes.fail(session, claim, capacity.out_of_memory(session.get_one(Job, claim.job_id), limit))

        self._write(fail)
        log.info("job_failed", code=capacity.OUT_OF_MEMORY)

    # The database and the storage may be away for a while: a finished job waits for them.

    def _stored(self, once: Callable[[], T], claim: Claim, heart: Heart) -> T:
        """Calls `once` until the storage is back; raises after CTP_STORAGE_WAIT_SECONDS or if the job must stop."""
        deadline, wait, waits = time.monotonic() + self.settings.storage_wait_seconds, FIRST_WAIT_SECONDS, False
        while True:
            heart.check()
            try:
                found = once()
            except StorageAway as error:
                if time.monotonic() >= deadline:
                    raise
                log.warning("storage_away", error=str(error))
                if not waits:
                    self._show_waiting(claim, "storage")
                waits = True
                self.stop.wait(wait)
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)
                continue
            if waits:
                self._show_waiting(claim, None)
            return found

    def _show_waiting(self, claim: Claim, part: str | None) -> None:
        self._write(lambda session: repository.write_held(session, claim, waiting_for=part))

    def _write(self, write: Callable[[Session], T]) -> T:
        def once() -> T:
            with self.database.write() as session:
                return write(session)

        return self._patiently(once)

    def _read(self, read: Callable[[Session], T]) -> T:
        def once() -> T:
            with self.database.read() as session:
                return read(session)

        return self._patiently(once)

    def _patiently(self, once: Callable[[], T]) -> T:
        """Repeats a transaction until the database is back; raises Released if the process must end meanwhile.

        Repeating is safe even if the first commit succeeded: every transaction here is fenced or only reads.
        """
        wait = FIRST_WAIT_SECONDS
        while True:
            try:
                return once()
            except DBAPIError as error:
                if not (isinstance(error, OperationalError) or error.connection_invalidated):
                    raise
                log.warning("database_away", error=str(error.orig))
                if self.stop.is_set():
                    raise Released from error
            self.stop.wait(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
