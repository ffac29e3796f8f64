"""Runs the parts of the service as processes that can be started, stopped and killed one by one.

Used by `ctp bench scale` and the fault tests: the topology of docker-compose.yml without containers.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import httpx

from service.db.engine import Database
from service.facts.files import KbFiles
from service.local.processes import PARTS, Part
from service.local.supervisor import redis_command
from service.preparing import prepare
from service.settings import Settings

READY_SECONDS = 180.0
POLL_SECONDS = 0.05


def free_port() -> int:
    """Returns a port that the system gives to nobody else for a minute.

    A connection that the listener closed first holds its port for that long; only a process that asks for this very
    port gets it.
    """
    with socket.socket() as listener, socket.socket() as caller:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        caller.connect(listener.getsockname())
        listener.accept()[0].close()
        port: int = listener.getsockname()[1]
        return port


def wait_for(condition: Callable[[], bool], what: str, seconds: float = READY_SECONDS) -> None:
    """Waits until the condition holds; raises TimeoutError with `what` if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s: {what}")
        time.sleep(POLL_SECONDS)


@dataclass
class Cluster:
    """Parts by name: `redis`, `api`, `train`, `query`, `dispatch`; further parts of a kind are called `train-2` etc.

    `settings` are names of `CTP_*` settings in lower case without the prefix; `environment` holds other variables.
    """

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> "Cluster":
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        database = self.database()
        prepare(database, KbFiles.of(self._settings()))
        database.dispose()
        self.start("redis")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for name in sorted(self.parts, key=lambda name: name == "redis"):
            self.parts[name].signal(signal.SIGCONT)
            self.parts[name].signal(signal.SIGTERM)
        for part in self.parts.values():
            try:
                part.wait()
            except subprocess.TimeoutExpired:
                part.kill()

    def _settings(self) -> Settings:
        return Settings(data_dir=self.folder, artifacts_url=self.settings.get("artifacts_url", ""))

    def database(self) -> Database:
        return Database(self.settings.get("database_url") or f"sqlite:///{self.folder / 'ctp.db'}")

    @property
    def redis_url(self) -> str:
        return self.settings.get("redis_url") or f"unix://{self.folder / 'queue.sock'}"

    def variables(self, name: str) -> dict[str, str]:
        outside = {key: value for key, value in os.environ.items() if not key.startswith("CTP_")}
        given = {"data_dir": str(self.folder), "redis_url": self.redis_url, "threads": "1", **self.settings}
        if name in self.ports:
            given["port"] = str(self.ports[name])
        return outside | dict(self.environment) | {f"CTP_{key.upper()}": value for key, value in given.items()}

    def start(self, *names: str) -> None:
        """Starts the parts, or restarts those that have ended, and waits until all of them run."""
        for name in names:
            kind = name.split("-", maxsplit=1)[0]
            if kind == "api":
                self.ports.setdefault(name, free_port())
            if name not in self.parts:
                command = PARTS[kind] if kind in PARTS else self._redis()
                self.parts[name] = Part(command, self.variables(name), self.folder / "logs" / f"{name}.log")
            self.parts[name].start()
        for name in names:
            wait_for(self._ready(name), f"{name} runs (its log is {self.parts[name].log})")

    def _redis(self) -> list[str]:
        return redis_command(self.folder, self.folder / "queue.sock")

    def _ready(self, name: str) -> Callable[[], bool]:
        if name == "redis":
            return (self.folder / "queue.sock").exists
        return (lambda: self._answers(name)) if name.startswith("api") else lambda: self.parts[name].alive

    def _answers(self, name: str) -> bool:
        try:
            return httpx.get(f"{self.url(name)}/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def url(self, name: str = "api") -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def wait_until_ready(self, name: str = "api") -> None:
        """Waits until every part that a training and a query need is ready."""
        wait_for(lambda: httpx.get(f"{self.url(name)}/readyz", timeout=30).status_code == 200, "the service is ready")
