"""The dispatcher: sends new jobs to the queue, takes jobs back from silent workers, removes unneeded KBs and files.

Any number of dispatchers may run; one of them leads, by a lease in the database. Two leaders at once would do no harm:
every step is safe to repeat.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import structlog
from celery import Celery
from kombu.exceptions import OperationalError as QueueError
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from service import leadership
from service.db.engine import Database
from service.db.tables import Job
from service.files import removals
from service.files.storage import Storage, StorageError
from service.files.stores import make_storage
from service.http.idempotency import forget_old_keys
from service.kbs.store import sweep as sweep_kbs
from service.leadership import DISPATCHER
from service.models.staging import PAUSE_SECONDS
from service.models.staging import sweep as sweep_imports
from service.predictions.service import expire
from service.queue import make_celery, make_redis, publish_job, waiting_jobs, withdraw_jobs
from service.settings import Settings
from service.training import lease, outcomes, repository
from service.training.repository import LeaseLost

log = structlog.get_logger()
RELAY_BATCH, REMOVAL_BATCH = 100, 100
PUT_OFF_SECONDS = 60.0


class Dispatcher:
    """Each turn of `run` renews the lead, publishes new jobs and, now and then, reconciles jobs with the queue."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings.database)
        self.storage: Storage = make_storage(settings)
        self.celery: Celery = make_celery(settings)
        self.redis: Any = make_redis(settings)
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._reconciled_at = self._led_at = float("-inf")
        gap = max(settings.lease_seconds / 3, 3 * settings.relay_seconds)
        self.witness = lease.Witness(self.database, gap / 4, gap)
        self.sweepers = [
            Sweeper("kbs", lambda: sweep_kbs(self.database)),
            Sweeper("imports", lambda: sweep_imports(self.database)),
            Sweeper("predictions", lambda: expire(self.database, settings)),
            # In a thread of its own: a storage that does not answer must not delay jobs.
            Sweeper("files", self.sweep_files),
        ]

    def run(self, stop: threading.Event) -> None:
        """Runs until told to stop; waits for parts that are away, since nothing is lost meanwhile."""
        threading.Thread(target=self.witness.watch, args=(stop,), name="witness", daemon=True).start()
        while not stop.wait(self.settings.relay_seconds):
            self._attempt(self.turn)
        self._resign()

    def turn(self) -> None:
        """Attempts each step on its own: Redis may be away, and most steps need only the database."""
        if not self._leads():
            return
        steps = [self.relay]
        if time.monotonic() - self._reconciled_at >= self.settings.reconcile_seconds:
            self._reconciled_at = time.monotonic()
            steps = [self.take_back, self.relay, self.ring_again, self.forget_old_keys, self.wake_sweepers]
        for step in steps:
            self._attempt(step)

    def _attempt(self, step: Callable[[], None]) -> None:
        """Runs a step and logs its failure, so that the next one can run; a failed step is repeated in a later turn."""
        try:
            step()
        except (SQLAlchemyError, RedisError, QueueError, OSError) as error:
            log.warning("dispatcher_waits", step=step.__name__, error=str(error))
        except Exception:
            log.exception("dispatcher_failed", step=step.__name__)

    def relay(self) -> None:
        """Publishes the jobs in the outbox, then removes them from it.

        A kill in between publishes a job twice, which is harmless: it can be claimed only once. A job that has ended is
        taken out of the queue instead, since every message left there costs a worker up to a second.
        """
        with self.database.read() as session:
            entries = repository.unpublished(session, RELAY_BATCH)
            ended, types = repository.ended(session, entries), repository.types(session, entries)
        if ended:
            withdraw_jobs(self.redis, ended)
        for entry in entries:
            wanted = entry.job_id in types and entry.job_id not in ended  # one that has ended may be deleted by now
            if wanted:
                publish_job(self.celery, entry.job_id, entry.priority, repository.QUEUES[types[entry.job_id]])
            with self.database.write() as session:
                repository.mark_published(session, entry)
            log.info("job_published" if wanted else "job_withdrawn", job_id=entry.job_id)

    def take_back(self) -> None:
        """Takes back jobs whose worker is silent, and ends parents whose children have all ended."""
        for job in self.witness.expired(self.settings.lease_seconds):
            self._take_back(job)
        with self.database.read() as session:
            unsettled = outcomes.unsettled(session)
        for parent in unsettled:
            while not self._settled(parent):
                time.sleep(PAUSE_SECONDS)

    def _settled(self, parent: Job) -> bool:
        with self.database.write() as session:
            return outcomes.settle(session, parent)

    def _take_back(self, job: Job) -> None:
        try:
            with self.database.write() as session:
                lease.take_back(session, job, self.settings.lease_seconds, self.settings.max_attempts)
            log.warning("job_taken_back", job_id=job.id, attempt=job.attempt)
        except LeaseLost:
            log.info("job_moved_on", job_id=job.id)

    def ring_again(self) -> None:
        """Publishes waiting jobs that are not in the queue: it was emptied, or a worker died before its claim."""
        with self.database.read() as session:
            forgotten = repository.forgotten(session, self.settings.reconcile_seconds)
        waiting = waiting_jobs(self.redis) if forgotten else set()
        missing = [job for job in forgotten if job.id not in waiting]
        if missing:
            with self.database.write() as session:
                for job in missing:
                    repository.ring(session, job)
            log.warning("jobs_rung_again", count=len(missing))

    def forget_old_keys(self) -> None:
        with self.database.write() as session:
            forget_old_keys(session)

    def wake_sweepers(self) -> None:
        for sweeper in self.sweepers:
            sweeper.wake()

    def sweep_files(self) -> None:
        """Removes the files that are due; postpones those that cannot be removed, so that they block no others."""
        with self.database.read() as session:
            due = removals.due(session, REMOVAL_BATCH)
        for removal in due:
            try:
                self.storage.delete(removal.owner)
            except StorageError as error:
                log.warning("removal_put_off", owner=removal.owner, error=str(error))
                with self.database.write() as session:
                    removals.put_off(session, removal, PUT_OFF_SECONDS)
            else:
                with self.database.write() as session:
                    removals.done(session, removal)

    def _leads(self) -> bool:
        """Takes or renews the lead; its lease outlives a few missed turns, so that a short delay does not move it."""
        seconds = max(self.settings.lease_seconds / 2, 3 * self.settings.relay_seconds)
        if time.monotonic() - self._led_at < seconds / 3:
            return True
        asked = time.monotonic()
        with self.database.write() as session:
            leads = leadership.take(session, DISPATCHER, self.owner, seconds)
        self._led_at = asked if leads else float("-inf")
        return leads

    def _resign(self) -> None:
        try:
            with self.database.write() as session:
                leadership.resign(session, DISPATCHER, self.owner)
        except SQLAlchemyError as error:
            log.warning("resign_failed", error=str(error))


class Sweeper:
    """Runs slow cleaning in a thread of its own, once at a time, so that it holds up nothing else."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        self.name, self.work = name, work
        self._thread = threading.Thread()

    def wake(self) -> None:
        if not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self.work()
        except (SQLAlchemyError, StorageError) as error:
            # Not urgent: the next sweep tries again.
            log.warning("sweep_failed", work=self.name, error=str(error))
        except Exception:
            log.exception("sweep_failed", work=self.name)
