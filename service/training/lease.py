"""The lease of a job: a worker takes it with a claim, renews it and gives it back, or loses it by being silent.

A job is taken back when its lease has expired (`expired`) although the worker could have renewed it (`Witness`).
"""

import threading
from collections.abc import Sequence
from typing import Any

import structlog
from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from service import leadership
from service.db.clock import now, over
from service.db.engine import Database
from service.db.tables import Job
from service.training import outcomes, repository
from service.training.repository import Claim

log = structlog.get_logger()
WITNESS = "witness"


def claim(session: Session, job_id: str, worker: str, lease_seconds: float) -> Claim | None:
    """Claims a queued job by compare-and-swap; returns None if another worker was first."""
    repository.lock_parent(session, job_id)
    values = {
        "status": "running",
        "attempt": Job.attempt + 1,
        "worker": worker,
        "waiting_for": None,
        "lease_expires_at": now() + lease_seconds,
        "started_at": func.coalesce(Job.started_at, now()),
    }
    statement = update(Job).where(Job.id == job_id, Job.status == "queued", Job.has_children.is_(False)).values(values)
    row = session.execute(statement.returning(Job.attempt, Job.parent_id)).one_or_none()
    if row is None:
        return None
    started = {"status": "running", "started_at": now()}
    session.execute(update(Job).where(Job.id == row.parent_id, Job.status == "queued").values(started))
    return Claim(job_id, row.attempt)


def claim_next(session: Session, job_types: Sequence[str], worker: str, lease_seconds: float) -> Claim | None:
    """Claims the queued job of these types whose tenant has waited longest; returns None if there is none."""
    while (job_id := repository.next_in_turn(session, job_types)) is not None:
        if (claimed := claim(session, job_id, worker, lease_seconds)) is not None:
            return claimed
    return None


def renew(session: Session, claim: Claim, lease_seconds: float, **values: Any) -> None:
    """Extends the lease and writes `values`; raises LeaseLost if the claim no longer holds."""
    repository.write_held(session, claim, lease_expires_at=now() + lease_seconds, **values)


def release(session: Session, claim: Claim) -> None:
    """Gives a job back to the queue because its worker must stop; this does not count as a failure."""
    job = session.get_one(Job, claim.job_id)
    repository.write_held(session, claim, status="queued", lease_expires_at=None, worker=None)
    repository.ring(session, job)


def _silent(lease_seconds: float) -> ColumnElement[bool]:
    """When a worker counts as silent."""
    return over(Job.lease_expires_at, lease_seconds)


def expired(session: Session, lease_seconds: float) -> Sequence[Job]:
    """Returns the jobs whose worker has not renewed its lease in time; `Witness.expired` asks if it could have."""
    return session.scalars(select(Job).where(Job.status == "running", _silent(lease_seconds))).all()


def take_back(session: Session, job: Job, lease_seconds: float, max_attempts: int) -> None:
    """Puts the job of a silent worker back into the queue, or fails it after its last attempt.

    Raises LeaseLost if the worker has renewed its lease since `job` was read.
    """
    lost(session, Claim(job.id, job.attempt), max_attempts, _silent(lease_seconds))


def lost(session: Session, claim: Claim, max_attempts: int, *also: Any, how: str = "lost") -> None:
    """Requeues or fails a job whose process is gone; raises LeaseLost if the claim no longer holds.

    `how` says what became of the process.
    """
    job = repository.lock(session, claim.job_id)
    crashes = job.crashes + 1
    if crashes < max_attempts:
        waits = {"status": "queued", "lease_expires_at": None, "worker": None, "crashes": crashes}
        repository.write_held(session, claim, *also, **waits)
        repository.ring(session, job)
        return
    repository.write_held(session, claim, *also, crashes=crashes)
    detail = f"the worker was {how} {crashes} times while it worked on this job: its log may say why"
    outcomes.fail(session, claim, {"code": "worker_lost", "detail": detail})


class Witness:
    """Measures how long the database has taken writes without a break, by the database's own clock.

    It writes a row of its own every `every` seconds. Two writes more than `gap` apart are a break: the database was
    away, hung, full or locked by others, this process was stopped, the machine slept, or the clock was set. A worker
    may have been unable to renew its lease meanwhile, or its lease has an end by another clock.
    """

    def __init__(self, database: Database, every: float, gap: float) -> None:
        self.database, self.every, self.gap = database, every, gap
        self._wrote_at = self._writes_since = float("-inf")
        self._lock = threading.Lock()  # two threads write: noted out of order, their times would look like a break

    def watch(self, stop: threading.Event) -> None:
        """Writes until told to stop; runs in its own thread, so that waiting for Redis is not a break."""
        while not stop.wait(self.every):
            try:
                self.write()
            except SQLAlchemyError as error:
                log.warning("no_write_taken", error=str(error))

    def write(self) -> float:
        """Returns for how many seconds the database has taken writes now."""
        with self._lock:
            with self.database.write() as session:
                leadership.take(session, WITNESS, WITNESS, 0.0)
                wrote_at = session.scalars(select(now())).one()
            if not 0 <= wrote_at - self._wrote_at <= self.gap:
                self._writes_since = wrote_at
            self._wrote_at = wrote_at
            return wrote_at - self._writes_since

    def expired(self, lease_seconds: float) -> Sequence[Job]:
        """Returns the jobs to take back: workers have been silent although they could have renewed their leases.

        After an outage, and at the start, they have one lease's time to do so.
        """
        if not self.has_seen(lease_seconds):
            return []
        with self.database.read() as session:
            return expired(session, lease_seconds)

    def has_seen(self, seconds: float) -> bool:
        """Tells whether the database has taken writes for the last `seconds`."""
        return self.write() >= seconds
