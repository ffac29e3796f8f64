"""The dispatcher: hands new jobs to the queue and takes back those whose worker is silent.

Any number may run; one leads, by a lease in the database.
"""

import os
import socket
import threading
import time
from typing import Any

import structlog
from celery import Celery
from redis.exceptions import RedisError
from sqlalchemy import or_, update
from sqlalchemy.engine import CursorResult
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

from service.db.clock import now
from service.db.engine import Database
from service.db.tables import Lease
from service.queue import make_celery, make_redis, publish_job, waiting_jobs
from service.settings import Settings
from service.training import repository
from service.training.repository import LeaseLost

log = structlog.get_logger()
ROLE = "dispatcher"
RELAY_BATCH = 100


class Dispatcher:
    """One turn of `run` leads, relays and, now and then, reconciles."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings.database)
        self.celery: Celery = make_celery(settings)
        self.redis: Any = make_redis(settings)
        self.owner = f"{socket.gethostname()}:{os.getpid()}"
        self._reconciled_at = float("-inf")

    def run(self, stop: threading.Event) -> None:
        """Until told to stop. A part that is away is waited for: nothing is lost meanwhile."""
        while not stop.wait(self.settings.relay_seconds):
            try:
                self.turn()
            except (SQLAlchemyError, RedisError, OSError) as error:
                log.warning("dispatcher_waits", error=str(error))
        self._resign()

    def turn(self) -> None:
        if not self._leads():
            return
        self.relay()
        if time.monotonic() - self._reconciled_at >= self.settings.reconcile_seconds:
            self._reconciled_at = time.monotonic()
            self.reconcile()

    def relay(self) -> None:
        """Publishes first and forgets second: a kill in between rings twice, which the claim makes harmless."""
        with self.database.read() as session:
            entries = repository.unpublished(session, RELAY_BATCH)
        for entry in entries:
            publish_job(self.celery, entry.job_id, entry.priority)
            with self.database.write() as session:
                repository.mark_published(session, entry)
            log.info("job_published", job_id=entry.job_id)

    def reconcile(self) -> None:
        with self.database.read() as session:
            expired = repository.expired(session)
            forgotten = repository.forgotten(session, self.settings.reconcile_seconds)
        for job in expired:
            try:
                with self.database.write() as session:
                    repository.take_back(session, job, self.settings.max_attempts)
                log.warning("job_taken_back", job_id=job.id, attempt=job.attempt)
            except LeaseLost:
                log.info("job_moved_on", job_id=job.id)
        # Jobs wait, yet the queue is empty: it was flushed, or a worker died between taking and claiming.
        if forgotten and waiting_jobs(self.redis) == 0:
            with self.database.write() as session:
                for job in forgotten:
                    repository.ring(session, job)
            log.warning("jobs_rung_again", count=len(forgotten))

    def _leads(self) -> bool:
        """Takes or renews the lease; it outlives a few missed turns, so that a hiccup does not move it."""
        seconds = max(self.settings.lease_seconds / 2, 3 * self.settings.relay_seconds)
        with self.database.write() as session:
            return self._take_lease(session, seconds)

    def _take_lease(self, session: Session, seconds: float) -> bool:
        mine = update(Lease).where(Lease.role == ROLE, or_(Lease.owner == self.owner, Lease.expires_at < now()))
        result = session.execute(mine.values(owner=self.owner, expires_at=now() + seconds))
        assert isinstance(result, CursorResult)
        if result.rowcount:
            return True
        if session.get(Lease, ROLE) is not None:
            return False
        try:
            with session.begin_nested():
                session.add(Lease(role=ROLE, owner=self.owner, expires_at=now() + seconds))
        except IntegrityError:
            return False
        return True

    def _resign(self) -> None:
        """Lets another lead at once."""
        try:
            with self.database.write() as session:
                session.execute(update(Lease).where(Lease.role == ROLE, Lease.owner == self.owner).values(expires_at=0))
        except SQLAlchemyError as error:
            log.warning("resign_failed", error=str(error))
