"""The whole service, started as a user starts it, for tests that talk to it from outside."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from ctp_client.transport import LIMITS
from service.local.cluster import free_port

STOP_SECONDS = 60


@dataclass
class RunningService:
    """A started `ctp up`: where it is, its process, and what it printed until it was ready."""

    url: str
    folder: Path
    process: subprocess.Popen[str]
    printed: str

    def client(self) -> httpx.Client:
        # Tests share it between threads: see `LIMITS` of the client.
        return httpx.Client(base_url=self.url, timeout=240, limits=LIMITS)

    def children(self) -> dict[str, int]:
        """Part -> process id of the supervisor's child that runs it."""
        # `ps` fails where there are no children, as for a moment after all of them were killed.
        command = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(self.process.pid)]
        listing = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        patterns = {
            "api": r"service\.cli api|service\.app",
            "train": r"-m worker train",
            "query": r"-m worker query",
            "batch": r"-m worker batch",
            "dispatch": r"service\.cli dispatch",
            "queue": r"valkey",
        }
        found = {}
        for line in listing.splitlines():
            number, arguments = line.split(maxsplit=1)
            found |= {part: int(number) for part, pattern in patterns.items() if re.search(pattern, arguments)}
        return found

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(STOP_SECONDS)


@contextmanager
def running_service(
    folder: Path, environment: Mapping[str, str] | None = None, through: Sequence[str] = (), **settings: str
) -> Iterator[RunningService]:
    """`ctp up` on a free port, with `CTP_*` settings in lower case without the prefix; stopped at the end.

    `through` is the command of a program that becomes it. Unless a test asks for more, one process answers: each takes
    seconds to load torch.
    """
    port = free_port()
    outside = {key: value for key, value in os.environ.items() if not key.startswith("CTP_")}
    environment = outside | dict(environment or {}) | {"CTP_DATA_DIR": str(folder)}
    environment.setdefault("CTP_QUERY_PROCESSES", "1")
    environment |= {f"CTP_{key.upper()}": value for key, value in settings.items()}
    process = subprocess.Popen(
        [*through, sys.executable, "-m", "service.cli", "up", "--port", str(port)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        printed = _wait_until_ready(process)
        yield RunningService(f"http://127.0.0.1:{port}", folder, process, printed)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        assert process.stdout is not None
        process.stdout.close()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if "Ctrl-C stops everything" in line:
            return printed
    raise AssertionError(f"the service did not start:\n{printed}")
