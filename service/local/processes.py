"""Starts the processes of the service, and makes sure that none outlives the process that started it."""

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


# Workers are started directly: `ctp worker` would only replace itself by the same process.
PARTS = {
    "api": [*CTP, "api"],
    "train": worker_command("train"),
    "query": worker_command("query"),
    "batch": worker_command("batch"),
    "dispatch": [*CTP, "dispatch"],
}


@dataclass
class Part:
    """A process and everything that it starts, in a process group of its own."""

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
                # Ctrl-C in the terminal then reaches only our own process, which stops the parts in order.
                start_new_session=True,
                user=self.user,
                preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509
            )

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Sends the signal to all processes of the part."""
        assert self.process is not None
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return

    def kill(self) -> None:
        """Kills the part at once, as a power cut would, and waits for its end."""
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        """Asks the part to end; kills it if it does not within STOP_SECONDS."""
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
        """Returns the ids of the processes that this one has started itself."""
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task")
        return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def num_threads(asked: int) -> int:
    """Returns the threads of one worker; 0 means half the cores, since two workers share the machine."""
    return asked or max(1, (os.cpu_count() or 2) // 2)


def die_with_parent(parent: int | None = None) -> None:
    """Asks Linux to kill this process when its parent is gone, however the parent ended.

    `parent` is the expected id of the parent, if known: the parent may have ended before this call.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)
