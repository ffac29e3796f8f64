"""The words between a worker and its child process, and the name of a worker."""

import os
import socket

STOP = "stop"  # order to the child: give the job back and end
DONE = "done"  # reply of the child after each job
BEAT = "beat"  # sent by the child now and then while it works
BEATS_PER_LEASE = 10


def worker_name(process: int | None = None) -> str:
    """Returns the name under which a job is held: the machine and the process that trains."""
    return f"{socket.gethostname()}:{process or os.getpid()}"
