"""The processes of the service: how each is started, and that none outlives the one that started it."""

import ctypes
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1
STOP_SECONDS = 20.0
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


@dataclass
class Part:
    """One process with everything that it starts, in a process group of its own."""

    command: list[str]
    environment: dict[str, str]
    log: Path
    user: str | None = None
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        parent = os.getpid()
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(  # noqa: S603
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C in the terminal reaches only the one who started it, and who stops its parts in order.
                start_new_session=True,
                user=self.user,
                preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509
            )

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """To all of its processes."""
        assert self.process is not None
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return

    def kill(self) -> None:
        """As a power cut would, and waited for."""
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        """In order; what does not end is killed."""
        if not self.alive:
            return
        self.signal(signal.SIGTERM)
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self.kill()

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(STOP_SECONDS)

    def children(self) -> list[int]:
        """The processes that this one has started itself."""
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task")
        return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def num_threads(asked: int) -> int:
    """Threads of one worker: more threads than cores make every process slower, and two share the machine."""
    return asked or max(1, (os.cpu_count() or 2) // 2)


def die_with_parent(parent: int | None = None) -> None:
    """Asks Linux to kill this process when its parent is gone, however the parent ended.

    `parent` is the parent's process id where the caller knows it: it may be gone before we asked.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)
