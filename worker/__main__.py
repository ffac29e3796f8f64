"""`python -m worker train`, `query` or `batch`: runs a Celery worker; `ctp worker` replaces itself by it."""

import os
import sys

from service.local.processes import num_threads
from service.settings import get_settings

# Batches that a query worker takes from the queue: it chooses among them who is next (worker.shares). Each waits in a
# thread, which is made when it is needed.
WAITING_ROOM = 64
OPTIONS = ["--loglevel", "WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat", "--pool", "threads"]


def main(role: str) -> None:
    # Must be set before torch and numpy are loaded: their thread pools read the variables only then. The tables of
    # numpy are small: threads that wait for the next of them take more time than they save.
    os.environ.setdefault("OMP_NUM_THREADS", str(num_threads(get_settings().threads)))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from worker.app import serve  # noqa: PLC0415

    # The one thread of a train or batch worker only waits for the process that works: see worker.nursery.
    concurrency = WAITING_ROOM if role == "query" else 1
    serve(role, ["--quiet", "worker", "--queues", role, *OPTIONS, "--concurrency", str(concurrency)])


if __name__ == "__main__":
    main(sys.argv[1])
