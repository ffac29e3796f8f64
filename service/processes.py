"""The processes of the service: how each is started, and that none outlives the one that started it."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
CTP = [sys.executable, "-m", "service.cli"]


def worker_command(role: str) -> list[str]:
    return [sys.executable, "-m", "worker", role]


# A worker is started by itself rather than through `ctp worker`, which would only become it.
PARTS = {
    "api": [*CTP, "api"],
    "train": worker_command("train"),
    "query": worker_command("query"),
    "dispatch": [*CTP, "dispatch"],
}


def die_with_parent(parent: int | None = None) -> None:
    """Asks Linux to kill this process when its parent is gone, however the parent ended.

    `parent` is the parent's process id where the caller knows it: it may be gone before we asked.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)
