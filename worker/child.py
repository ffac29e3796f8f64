"""The process that trains, evaluates or predicts: it loads torch, then reads one job id after another from its input.

Started by worker.nursery as `python -m worker.child ROLE`. It writes `beat` while it works on a job and `done` after
it. If its input ends, its parent is gone: it exits at once, and the dispatcher takes its job back when the lease
expires.
"""

import gc
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator

import structlog
import torch

from service.local.repeated import repeated
from service.logs import configure_logs
from service.queue import BATCH_QUEUE, TRAIN_QUEUE
from service.settings import get_settings
from worker import memory
from worker.batch_job import BatchJob
from worker.job import JobRunner
from worker.names import BEAT, BEATS_PER_LEASE, CLINGS, DONE, MOST_BEAT_SECONDS, STOP
from worker.pipes import PARENT_GONE, STDIN, reply_descriptor
from worker.training_job import TrainingJob

RUNNERS: dict[str, type[JobRunner]] = {TRAIN_QUEUE: TrainingJob, BATCH_QUEUE: BatchJob}


def main(role: str) -> None:
    settings, stop = get_settings(), threading.Event()
    configure_logs(settings.log_level)
    memory.offer_to_the_kernel()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    replies = reply_descriptor()
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs, stop), name="orders", daemon=True).start()
    runner = RUNNERS[role](settings, stop)

    def beat() -> None:
        # If the lease is lost but the work does not notice, the parent kills us.
        _say(replies, CLINGS if runner.clings else BEAT)

    beat()
    while not stop.is_set() and (job_id := jobs.get()) != STOP:
        with repeated(beat, min(settings.lease_seconds / BEATS_PER_LEASE, MOST_BEAT_SECONDS)):
            runner.run(job_id)
            structlog.contextvars.clear_contextvars()
            _free_memory()
        _say(replies, DONE)


def _say(replies: int, word: str) -> None:
    """Writes a line in one piece, so that lines of several threads do not mix."""
    os.write(replies, f"{word}\n".encode())


def _listen(jobs: "queue.SimpleQueue[str]", stop: threading.Event) -> None:
    for line in _lines():
        if line == STOP:
            stop.set()
        jobs.put(line)
    os._exit(PARENT_GONE)


def _lines() -> Iterator[str]:
    """Yields the lines of standard input, unbuffered: a buffered read would hold a lock when the process ends."""
    rest = b""
    while piece := os.read(STDIN, 4096):
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line.decode() for line in lines)


def _free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1])
