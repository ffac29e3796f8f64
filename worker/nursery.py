"""Starts and watches the child process that trains: ready before it is needed, replaced as soon as it ends.

Celery's own pool would fork, which hangs after any threaded torch operation, or spawn a process for each task and kill
it if it needs more than four seconds to load torch. Here the parent never loads torch. The child loads it once and
trains one job after another.
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
# The child is replaced now and then, so that memory leaks of libraries do not grow for ever.
JOBS_PER_CHILD = 50
# The first child starts a little later, so that parts which the user waits for get the cores first.
SOON_SECONDS = 4.0
# Time until the first word of a child, which loads torch from a disk that may be slow.
LOAD_SECONDS = 120.0
CLOSE_SECONDS = 30.0


class Child:
    """A process that trains the jobs it is told; if it is silent for `patience` seconds, it hangs."""

    def __init__(self, patience: float) -> None:
        self.patience, self._has_spoken = patience, False
        pipe = subprocess.PIPE
        # Unbuffered, so that closing the pipe of a dead child does not try to write again.
        self.process = subprocess.Popen([sys.executable, "-m", "worker.child"], stdin=pipe, stdout=pipe, bufsize=0)
        self.jobs = 0

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def tell(self, order: str) -> None:
        """Sends an order; does nothing if the child is gone, which others notice."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{order}\n".encode())
        except BrokenPipeError:
            log.warning("child_is_gone", process=self.process.pid)

    def train(self, job_id: str) -> bool:
        """Trains a job; returns False if the child ended before it, or hung and was killed."""
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
        """Waits for a word of the child, in many short pieces: a time in which we were stopped counts as one piece."""
        assert self.process.stdout is not None
        patience = self.patience if self._has_spoken else max(self.patience, LOAD_SECONDS)
        pieces = 2 * BEATS_PER_LEASE
        return any(select.select([self.process.stdout], [], [], patience / pieces)[0] for _ in range(pieces))

    def close(self) -> int:
        """Ends the child, by force if need be; returns its exit code."""
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
    """Keeps one child, since Celery hands over one job at a time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings.database)
        # Re-entrant: `close` may run in a signal handler of the thread that prepares.
        self._lock = threading.RLock()
        self._child: Child | None = None
        self._closed = False

    def prepare_soon(self) -> None:
        """Starts the first child a little later, or at once if a job comes before."""
        timer = threading.Timer(SOON_SECONDS, self.prepare)
        timer.daemon = True
        timer.start()

    def prepare(self) -> Child | None:
        """Returns the child, after starting it if need be; None after `close`."""
        with self._lock:
            if self._closed:
                return None
            if self._child is None or not self._child.alive:
                self._child = Child(self.settings.lease_seconds)
            return self._child

    def run(self, job_id: str) -> None:
        """Runs a job until it, or the child, has ended."""
        child = self.prepare()
        if child is None:
            return  # the job is still queued: the dispatcher publishes it again
        done = child.train(job_id)
        if not done or child.jobs >= JOBS_PER_CHILD:
            code = child.close()
            self.prepare()
            if not done and code != 0:
                self._report_loss(job_id, child, code)

    def close(self) -> None:
        """Tells the child to give its job back, if it has one, and to end."""
        with self._lock:
            self._closed = True
            if self._child is not None:
                self._child.tell(STOP)

    def _report_loss(self, job_id: str, child: Child, code: int) -> None:
        """Reports a lost child at once; if the database is away, the expiring lease does it later."""
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
    """Returns the nursery of this process."""
    return Nursery(settings)
