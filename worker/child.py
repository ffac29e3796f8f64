"""The process that trains: it loads torch, then takes one job after another from its standard input.

`python -m worker.child`, started by worker.nursery. It says `beat` while it works on a job and `done` after it. The end
of its input means that its parent is gone, and with it everybody who waits for the job: it ends at once, and the lease
does the rest.
"""

import gc
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
import torch

from service.logs import configure_logs
from service.settings import get_settings
from worker.names import BEAT, BEATS_PER_LEASE, DONE, STOP
from worker.training_job import TrainingJob

STDIN = 0
PARENT_GONE = 3


def main() -> None:
    settings, stop = get_settings(), threading.Event()
    configure_logs(settings.log_level)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    # Replies have a channel of their own: whatever a library prints goes to the log.
    replies = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs, stop), name="orders", daemon=True).start()
    training = TrainingJob(settings, stop)

    def beat() -> None:
        # Nobody needs a job that is not ours any more: silence has us killed where we do not notice.
        if not training.clings:
            _say(replies, BEAT)

    beat()
    while not stop.is_set() and (job_id := jobs.get()) != STOP:
        with repeated(beat, settings.lease_seconds / BEATS_PER_LEASE):
            training.run(job_id)
            structlog.contextvars.clear_contextvars()
            _free_memory()
        _say(replies, DONE)


def _say(replies: int, word: str) -> None:
    """A line in one piece, whichever thread says it."""
    os.write(replies, f"{word}\n".encode())


@contextmanager
def repeated(call: Callable[[], None], seconds: float) -> Iterator[None]:
    """In a thread of its own: what the block waits for, it may wait for long."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(seconds):
            call()

    thread = threading.Thread(target=repeat, name="beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _listen(jobs: "queue.SimpleQueue[str]", stop: threading.Event) -> None:
    for line in _lines():
        if line == STOP:
            stop.set()
        jobs.put(line)
    os._exit(PARENT_GONE)


def _lines() -> Iterator[str]:
    """Unbuffered: a thread that waits in a buffered read would hold its lock when the process ends."""
    rest = b""
    while piece := os.read(STDIN, 4096):
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line.decode() for line in lines)


def _free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
