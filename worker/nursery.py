"""The child that trains, seen from its worker: warm before it is needed, and missed at once when it is gone.

Celery's own pool would fork (which hangs after any threaded torch operation) or spawn a process for each task, give
it four seconds to load torch, and kill it where the machine is busy. Here the parent never loads torch, the child
does so once and trains one job after another, and a new one is started as soon as the old one has ended.
"""

import select
import subprocess
import sys
import threading
from functools import cache

import structlog
from sqlalchemy.exc import SQLAlchemyError

from service.db.engine import Database
from service.db.tables import Job
from service.settings import Settings
from service.training import lease
from service.training.repository import Claim, LeaseLost
from worker.names import BEATS_PER_LEASE, DONE, STOP, worker_name

log = structlog.get_logger()
# A fresh process now and then, so that no leak of any library grows for ever.
JOBS_PER_CHILD = 50
# Where all parts start at once on few cores, the first child leaves them to those who are waited for.
SOON_SECONDS = 4.0
# Until its first word it loads torch, from a disk that may be slow.
LOAD_SECONDS = 120.0
CLOSE_SECONDS = 30.0


class Child:
    """A process with torch loaded that trains what it is told; one that is silent for `patience` seconds hangs."""

    def __init__(self, patience: float) -> None:
        self.patience, self._has_spoken = patience, False
        pipe = subprocess.PIPE
        # Unbuffered: what a dead child did not take must not be tried again when its pipe is closed.
        self.process = subprocess.Popen([sys.executable, "-m", "worker.child"], stdin=pipe, stdout=pipe, bufsize=0)
        self.jobs = 0

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def tell(self, order: str) -> None:
        """A child that is gone hears nothing; that it is gone is seen elsewhere."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{order}\n".encode())
        except BrokenPipeError:
            log.warning("child_is_gone", process=self.process.pid)

    def train(self, job_id: str) -> bool:
        """Waits for the end of the job; False where the child ended first, or hung and was killed."""
        assert self.process.stdout is not None
        self.jobs += 1
        self.tell(job_id)
        while self._speaks():
            self._has_spoken = True
            word = self.process.stdout.readline().decode().strip()
            if word in (DONE, ""):
                return word == DONE
        log.warning("child_hangs", process=self.process.pid, job_id=job_id)
        self.process.kill()
        return False

    def _speaks(self) -> bool:
        """Waits in many short pieces: those in which we were stopped ourselves count as one."""
        assert self.process.stdout is not None
        patience = self.patience if self._has_spoken else max(self.patience, LOAD_SECONDS)
        pieces = 2 * BEATS_PER_LEASE
        return any(select.select([self.process.stdout], [], [], patience / pieces)[0] for _ in range(pieces))

    def close(self) -> int:
        """The code it ended with, once it has."""
        self.tell(STOP)
        try:
            code = self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        return code


class Nursery:
    """One child at a time; Celery hands over one job at a time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings.database)
        # Closing may happen in a signal handler of the thread that prepares.
        self._lock = threading.RLock()
        self._child: Child | None = None
        self._closed = False

    def prepare_soon(self) -> None:
        """The first child, a little later; a job that comes before gets it at once."""
        timer = threading.Timer(SOON_SECONDS, self.prepare)
        timer.daemon = True
        timer.start()

    def prepare(self) -> Child | None:
        """The child, started where there is none; None once this is closed."""
        with self._lock:
            if self._closed:
                return None
            if self._child is None or not self._child.alive:
                self._child = Child(self.settings.lease_seconds)
            return self._child

    def run(self, job_id: str) -> None:
        """Until the job has ended, or the child has."""
        child = self.prepare()
        if child is None:
            return  # the job is still queued, and will be rung again
        done = child.train(job_id)
        if not done or child.jobs >= JOBS_PER_CHILD:
            code = child.close()
            self.prepare()
            if not done and code != 0:
                self._report_loss(job_id, child, code)

    def close(self) -> None:
        """The child gives its job back, if it has one, and ends."""
        with self._lock:
            self._closed = True
            if self._child is not None:
                self._child.tell(STOP)

    def _report_loss(self, job_id: str, child: Child, code: int) -> None:
        """Sooner than the lease would; where the database is away, the lease does it."""
        log.warning("child_lost", job_id=job_id, code=code)
        try:
            with self.database.write() as session:
                job = session.get(Job, job_id)
                if job is not None and job.worker == worker_name(child.process.pid):
                    lease.lost(session, Claim(job_id, job.attempt), self.settings.max_attempts)
        except LeaseLost:
            log.info("job_moved_on", job_id=job_id)
        except SQLAlchemyError as error:
            log.warning("loss_not_reported", job_id=job_id, error=str(error))


@cache
def nursery(settings: Settings) -> Nursery:
    """One for each process."""
    return Nursery(settings)
