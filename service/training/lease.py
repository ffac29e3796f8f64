"""The lease of a job: taken with a claim, renewed by the worker, given back, or taken back from a silent worker.

A job is taken back when its lease has expired (`expired`) and the worker could have renewed it (`Witness`).
"""

import threading
from collections.abc import Sequence
from typing import Any

import structlog
from sqlalchemy import func, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from service.db.clock import now
from service.db.engine import Database
from service.db.tables import Job
from service.training import outcomes, repository
from service.training.repository import Claim

log = structlog.get_logger()


def claim(session: Session, job_id: str, worker: str, lease_seconds: float) -> Claim | None:
    """Compare-and-swap from queued to running; None where somebody else was first."""
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


def renew(session: Session, claim: Claim, lease_seconds: float, **values: Any) -> None:
    """Holds the job for another lease, and writes `values`; raises LeaseLost where the job is not held any more."""
    repository.write_held(session, claim, lease_expires_at=now() + lease_seconds, **values)


def release(session: Session, claim: Claim) -> None:
    """Gives a job back without having failed: its worker is told to stop."""
    job = session.get_one(Job, claim.job_id)
    repository.write_held(session, claim, status="queued", lease_expires_at=None, worker=None)
    repository.ring(session, job)


def expired(session: Session) -> Sequence[Job]:
    """Jobs whose worker has not renewed its lease in time."""
    return session.scalars(select(Job).where(Job.status == "running", Job.lease_expires_at < now())).all()


def take_back(session: Session, job: Job, max_attempts: int) -> None:
    """A job whose worker is silent goes back to the queue, or fails after its last attempt.

    Raises LeaseLost where the worker has spoken since `job` was read.
    """
    silent = Job.lease_expires_at < now()
    lost(session, Claim(job.id, job.attempt), max_attempts, silent)


def lost(session: Session, claim: Claim, max_attempts: int, *also: Any) -> None:
    """The process that held this claim is gone."""
    job = repository.lock(session, claim.job_id)
    crashes = job.crashes + 1
    if crashes < max_attempts:
        waits = {"status": "queued", "lease_expires_at": None, "worker": None, "crashes": crashes}
        repository.write_held(session, claim, *also, **waits)
        repository.ring(session, job)
        return
    repository.write_held(session, claim, *also, crashes=crashes)
    detail = f"the worker was lost {crashes} times while it trained this model: see its log for the reason"
    outcomes.fail(session, claim, {"code": "worker_lost", "detail": detail})


class Witness:
    """Knows how long the database has been there without a break, on the database's own clock.

    It looks at that clock now and then. Two looks more than `gap` apart are a break: the database was away or hung,
    this process was stopped, or the machine slept. A worker that was silent meanwhile may have had no way to renew.
    """

    def __init__(self, database: Database, every: float, gap: float) -> None:
        self.database, self.every, self.gap = database, every, gap
        self._seen_at = self._seen_since = float("-inf")

    def watch(self, stop: threading.Event) -> None:
        """In a thread of its own, so that a Redis that is waited for is no break."""
        while not stop.wait(self.every):
            try:
                self.look()
            except SQLAlchemyError as error:
                log.warning("clock_not_seen", error=str(error))

    def look(self) -> None:
        with self.database.read() as session:
            seen_at = session.scalars(select(now())).one()
        if seen_at - self._seen_at > self.gap:
            self._seen_since = seen_at
        self._seen_at = seen_at

    def has_seen(self, seconds: float) -> bool:
        """The database was there all this time, until now."""
        self.look()
        return self._seen_at - self._seen_since >= seconds
