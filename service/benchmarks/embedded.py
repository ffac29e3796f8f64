"""Starts the embedded service for a benchmark, tells what its parts use, and looks again and again meanwhile."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from service.local.cluster import free_port

HOST = "127.0.0.1"
READY = "Ctrl-C stops everything"
# The words of a process's command line that tell its part.
PARTS = {"api": "api", "query": "query", "worker.query_child": "query", "dispatch": "dispatch"}


@contextmanager
def embedded_service(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[httpx.Client]:
    """Runs `ctp up` in the folder, with `CTP_*` settings in lower case without the prefix."""
    port = free_port()
    own = {"data_dir": str(folder), "log_level": "WARNING", **(settings or {})}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CTP_")}
    environment |= {f"CTP_{name.upper()}": value for name, value in own.items()}
    command = [sys.executable, "-m", "service.cli", "up", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stdout is not None
    try:
        if not any(READY in line for line in process.stdout):
            raise RuntimeError("the service did not start")
        with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=310) as client:
            yield client
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@dataclass(frozen=True)
class Usage:
    """CPU seconds and megabytes of memory of one part, with its children."""

    cpu: float = 0.0
    memory: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.cpu + other.cpu, self.memory + other.memory)


def processes(folder: Path) -> dict[str, Usage]:
    """Returns the usage of API, query worker and dispatcher: the processes with this data folder in their settings."""
    found: dict[str, Usage] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            mine = f"CTP_DATA_DIR={folder}".encode() in (process / "environ").read_bytes().split(b"\0")
            words = (process / "cmdline").read_bytes().decode().split("\0")
            ticks = (process / "stat").read_text().rsplit(")", 1)[1].split()[11:13]
            pages = int((process / "statm").read_text().split()[1])
        except (OSError, IndexError, UnicodeDecodeError):
            continue
        part = next((PARTS[word] for word in words if word in PARTS), None)
        if mine and part is not None:
            usage = Usage(sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
            found[part] = found.get(part, Usage()) + usage
    return found


def in_python(module: str, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Runs a module in a process of its own and returns its figures; raises RuntimeError if it fails."""
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-m", module],
        input=json.dumps(plan),
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(f"{module} failed: {ended.stderr[-2000:]}")
    seen: dict[str, Any] = json.loads(ended.stdout)
    return seen


def machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "load_average": [round(load, 2) for load in os.getloadavg()]}
