"""What a worker and its child call things."""

import os
import socket

STOP = "stop"  # the order to give the job back and end
DONE = "done"  # the reply after each job
BEAT = "beat"  # and until then, now and then
BEATS_PER_LEASE = 10


def worker_name(process: int | None = None) -> str:
    """Who holds a job: the machine and the process that trains it."""
    return f"{socket.gethostname()}:{process or os.getpid()}"
