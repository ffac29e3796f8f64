"""Starts and watches the child process that trains or evaluates: ready in time, replaced as soon as it ends.

Celery's own pool would fork, which hangs after any threaded torch operation, or spawn a process for each task and kill
it if it needs more than four seconds to load torch. Here the parent never loads torch. The child loads it once and
does one job after another.
"""

import enum
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import structlog
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from service.db.engine import Database
from service.db.tables import Job
from service.errors import Unavailable
from service.queue import TRAIN_QUEUE, alive, make_redis
from service.settings import Settings
from service.training import capacity, lease, outcomes, repository
from service.training.repository import Claim, LeaseLost
from worker import memory
from worker.names import CLINGS, DONE, LOAD_SECONDS, STOP, worker_name
from worker.pipes import silence
from worker.speed import measured_speed

log = structlog.get_logger()
# The child is replaced now and then, so that memory leaks of libraries do not grow for ever.
JOBS_PER_CHILD = 50
# The first child starts a little later, so that parts which the user waits for get the cores first.
SOON_SECONDS = 4.0
CLOSE_SECONDS = 30.0
# A training that was cancelled notices it after the step it is in. If that is long, it is not waited for.
MOST_CLINGS = 3
# Somebody may have killed the process by mistake, but hardly twice.
KILLED_ATTEMPTS = 2


class Ending(enum.Enum):
    """How the work of a child on a job ended."""

    DONE = "it has said so"
    GONE = "the process ended before"
    HUNG = "it was silent for too long, and was killed"
    CLUNG = "it went on with a job that is not its own any more, and was killed"
    TOO_LARGE = "it used more memory than it may, and was killed"
    MACHINE_FULL = "hardly any memory was left on the machine, and it was killed"


class Child:
    """A process that does the jobs it is told; if it is silent for `patience` seconds, it hangs."""

    def __init__(self, patience: float, command: Sequence[str]) -> None:
        self.patience, self._has_spoken = patience, False
        pipe = subprocess.PIPE
        # Unbuffered, so that closing the pipe of a dead child does not try to write again.
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0)  # noqa: S603
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

    def run(self, job_id: str, limit: int | None = None) -> Ending:
        """Does a job; kills the child if it hangs, clings to the job or takes more than `limit` bytes of memory."""
        assert self.process.stdout is not None
        self.jobs += 1
        if limit is not None:
            memory.restrict(self.process.pid, limit)
        self.tell(job_id)
        clings = 0
        while (stopped := self._waited(limit)) is None:
            self._has_spoken = True
            word = self.process.stdout.readline().decode().strip()
            if word in (DONE, ""):
                return Ending.DONE if word == DONE else Ending.GONE
            clings += word == CLINGS
            if clings == MOST_CLINGS:
                stopped = Ending.CLUNG
                break
        log.warning("child_killed", process=self.process.pid, job_id=job_id, reason=stopped.value)
        self.process.kill()
        return stopped

    def _waited(self, limit: int | None) -> Ending | None:
        """Waits for a word of the child; returns why it must be killed, if it must."""
        assert self.process.stdout is not None
        patience = self.patience if self._has_spoken else max(self.patience, LOAD_SECONDS)
        return silence(self.process.stdout, patience, Ending.HUNG, lambda: self._beyond(limit))

    def _beyond(self, limit: int | None) -> Ending | None:
        if limit is not None and memory.resident_bytes(self.process.pid) > limit:
            return Ending.TOO_LARGE
        return Ending.MACHINE_FULL if limit is not None and memory.scarce() else None

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
    """Keeps one child of a role, since Celery hands over one job at a time."""

    def __init__(self, settings: Settings, role: str = TRAIN_QUEUE) -> None:
        self.settings, self.role = settings, role
        self.database = Database(settings.database)
        # Re-entrant: `close` may run in a signal handler of the thread that prepares.
        self._lock = threading.RLock()
        self._child: Child | None = None
        self._closed = False
        self._over = threading.Event()
        self._free = memory.free_bytes()

    def prepare_soon(self) -> None:
        """Starts the first child a little later, or at once if a job comes before; reports the memory it will have."""
        threading.Thread(target=self._report_capacity, name="capacity", daemon=True).start()
        timer = threading.Timer(SOON_SECONDS, self.prepare)
        timer.daemon = True
        timer.start()

    def prepare(self) -> Child | None:
        """Returns the child, after starting it if need be; None after `close`."""
        with self._lock:
            if self._closed:
                return None
            if self._child is None or not self._child.alive:
                self._free = memory.free_bytes()
                command = (sys.executable, "-m", "worker.child", self.role)
                self._child = Child(self.settings.lease_seconds, command)
            return self._child

    def run(self, job_id: str) -> None:
        """Runs a job until it, or the child, has ended."""
        child = self.prepare()
        if child is None:
            return  # the job is still queued: the dispatcher publishes it again
        kills, limit = memory.oom_kills(), self.limit()
        ending = child.run(job_id, limit)
        if ending is not Ending.DONE or child.jobs >= JOBS_PER_CHILD:
            code = child.close()
            self.prepare()
            if ending is Ending.GONE and code == -signal.SIGKILL and memory.oom_kills() > kills:
                ending = Ending.MACHINE_FULL
            if ending is not Ending.DONE and code != 0:
                self._report_loss(job_id, child, ending, code, limit)

    def limit(self) -> int | None:
        """The memory that a job may take here: what was free when the child started, shared by all workers."""
        if self.role == TRAIN_QUEUE:
            return self.settings.train_memory_bytes or memory.share_of(self._free, self._num_workers())
        share = memory.share_of(self._free, self._num_workers(), memory.BATCH_SHARE)
        return self.settings.batch_memory_bytes or (None if share is None else max(share, memory.LEAST_BATCH_BYTES))

    def _num_workers(self) -> int:
        """The workers of this role on this machine, which share its memory; 1 if Redis is away."""
        try:
            with make_redis(self.settings) as redis:
                return max(1, alive(redis, self.role, socket.gethostname()))
        except (RedisError, Unavailable):
            return 1

    def close(self) -> None:
        """Tells the child to give its job back, if it has one, and to end."""
        self._over.set()
        with self._lock:
            self._closed = True
            if self._child is not None:
                self._child.tell(STOP)

    def _report_loss(self, job_id: str, child: Child, ending: Ending, code: int, limit: int | None) -> None:
        """Reports a lost child at once; if the database is away, the expiring lease does it later."""
        log.warning("child_lost", job_id=job_id, code=code, reason=ending.value)
        try:
            with self.database.write() as session:
                # Not by its id: a child that evaluates chooses its job itself.
                job = repository.run_by(session, worker_name(child.process.pid))
                if job is not None:
                    self._record(session, job, ending, code, limit)
        except LeaseLost:
            log.info("job_moved_on", job_id=job_id)
        except SQLAlchemyError as error:
            log.warning("loss_not_reported", job_id=job_id, error=str(error))

    def _record(self, session: Session, job: Job, ending: Ending, code: int, limit: int | None) -> None:
        claim, attempts = Claim(job.id, job.attempt), self.settings.max_attempts
        if ending in (Ending.TOO_LARGE, Ending.MACHINE_FULL):
            outcomes.fail(session, claim, capacity.out_of_memory(job, limit, machine=ending is Ending.MACHINE_FULL))
        elif ending is Ending.GONE and code == -signal.SIGKILL:
            lease.lost(session, claim, min(KILLED_ATTEMPTS, attempts), how="killed from outside (SIGKILL)")
        else:
            lease.lost(session, claim, attempts)

    def _report_capacity(self) -> None:
        """Tells the database again and again how much memory a training has here, so that none is sent in vain."""
        name, speed = worker_name(), measured_speed()
        while True:
            try:
                with self.database.write() as session:
                    capacity.report(session, name, self.limit(), speed)
            except SQLAlchemyError as error:
                log.warning("capacity_not_reported", error=str(error))
            if self._over.wait(capacity.REPORT_SECONDS):
                break
        with suppress(SQLAlchemyError), self.database.write() as session:
            capacity.leave(session, name)


@cache
def nursery(settings: Settings, role: str) -> Nursery:
    """Returns the nursery of this process."""
    return Nursery(settings, role)
