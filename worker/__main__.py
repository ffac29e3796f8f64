"""`python -m worker train` and `python -m worker query`: a Celery worker; `ctp worker` becomes it."""

import os
import sys

from service.local.processes import num_threads
from service.settings import get_settings
from worker.app import serve

QUERY_THREADS = 2
OPTIONS = ["--loglevel", "WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat", "--pool", "threads"]


def main(role: str) -> None:
    # Read by torch's thread pool when it is loaded, so it must be set before.
    os.environ.setdefault("OMP_NUM_THREADS", str(num_threads(get_settings().threads)))
    # A train worker's thread only waits for a process of its own that trains: see worker.nursery.
    concurrency = QUERY_THREADS if role == "query" else 1
    serve(role, ["--quiet", "worker", "--queues", role, *OPTIONS, "--concurrency", str(concurrency)])


if __name__ == "__main__":
    main(sys.argv[1])
