"""What a new user does: a copy of the project, `make run`, and the README's commands pasted one after the other."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.local.cluster import free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
README_URL = "http://127.0.0.1:8000"
# Values that differ from run to run; everything else must be as the README shows it.
IDS, TIMES = {"id", "model_id", "kb_id", "job_id"}, {"created_at", "started_at", "finished_at"}
FLEETING = IDS | TIMES | {"elapsed_ms", "eta_seconds", "elapsed_seconds", "cpu_seconds", "basis"}
SCORE_TOLERANCE = 0.03


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that a clone would have, in a folder with nothing else."""
    folder = tmp_path_factory.mktemp("copy") / "ctp"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def clean_environment() -> dict[str, str]:
    """No virtual environment and no settings of the machine that runs the tests."""
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(("CTP_", "VIRTUAL_ENV", "PYTHON", "MAKE", "MFLAGS"))
    }
    path = [part for part in inherited["PATH"].split(os.pathsep) if not (Path(part).parent / "pyvenv.cfg").exists()]
    return inherited | {"PATH": os.pathsep.join(path)}


class Started:
    """`make run` in a folder, until `stop`."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.process = subprocess.Popen(
            ["make", "run", f"PORT={self.port}"],
            cwd=folder,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.printed = ""

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed += line
            if "Ctrl-C stops everything" in line:
                return
        self.stop()
        raise AssertionError(self.printed)

    def stop(self) -> None:
        """Ctrl-C in a terminal reaches the whole foreground group."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        assert self.process.stdout is not None
        self.printed += self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait(60)


@pytest.fixture(scope="module")
def started(copy: Path) -> Iterator[Started]:
    started = Started(copy)
    try:
        started.wait_until_ready()
        yield started
    finally:
        if started.process.poll() is None:
            started.stop()


def readme_steps() -> list[tuple[str, Any]]:
    """Each block of commands with the JSON that the README shows below it."""
    text = (ROOT / "README.md").read_text()
    pairs = re.findall(r"```sh\n(curl .*?)```\n+```json\n(.*?)```", text, re.DOTALL)
    return [(command, json.loads(answer)) for command, answer in pairs]


def pasted(command: str, port: int) -> str:
    """What a shell prints when the command is pasted into it."""
    command = command.replace(README_URL, f"http://127.0.0.1:{port}")
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=180, check=True).stdout


def assert_alike(shown: Any, actual: Any, place: str = "answer") -> None:
    """Equal, but for what differs from run to run and for the last digits of numbers."""
    if isinstance(shown, dict):
        assert isinstance(actual, dict), place
        assert list(shown) == list(actual), place
        for key in shown:
            if key not in FLEETING:
                assert_alike(shown[key], actual[key], f"{place}.{key}")
    elif isinstance(shown, list):
        assert isinstance(actual, list), place
        assert len(shown) == len(actual), place
        for number, (left, right) in enumerate(zip(shown, actual, strict=True)):
            assert_alike(left, right, f"{place}.{number}")
    elif isinstance(shown, float):
        assert actual == pytest.approx(shown, abs=SCORE_TOLERANCE, rel=SCORE_TOLERANCE), place
    else:
        assert shown == actual, place


def test_the_readmes_commands_answer_as_the_readme_shows(started: Started) -> None:
    steps = readme_steps()
    assert len(steps) >= 3
    for command, shown in steps:
        assert_alike(shown, json.loads(pasted(command, started.port)), command.split("\n", 1)[0])


def test_the_readmes_first_own_kb_is_trained_as_pasted(copy: Path, started: Started) -> None:
    [command] = re.findall(r"```sh\n([^`]*?ctp kb generate .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert "--facts 20000" in command
    environment = clean_environment() | {"CTP_URL": f"http://127.0.0.1:{started.port}"}
    ran = subprocess.run(
        ["bash", "-ec", command], cwd=copy, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == 0, ran.stderr
    chain = "acts_on(X,Y) :- targets(X,Z), member_of(Z,Y)"
    assert ran.stdout.count(chain) >= 2, "generate prints it, and rules finds it"


def test_the_printed_commands_work_when_pasted(started: Started) -> None:
    commands = re.findall(r"^  (curl .*?\\\n.*?)$", started.printed, re.MULTILINE)
    assert len(commands) == 2
    job, answer = (json.loads(pasted(command, started.port)) for command in commands)
    assert job["job"]["status"] == "succeeded"
    grandparents = {found["subject"] for found in answer["answers"][:4]}
    assert grandparents == {"rick", "diane", "leonard", "joyce"}


def test_starting_again_is_quick_and_leaves_nothing_behind(copy: Path, started: Started) -> None:
    started.stop()
    assert "Stopped" in started.printed
    again = Started(copy)
    again.wait_until_ready()
    again.stop()
    assert "Installing" not in again.printed
    left = subprocess.run(["pgrep", "-f", str(copy)], capture_output=True, text=True, check=False)
    assert left.stdout == ""


def test_a_python_without_venv_gets_one_line(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    stub = tmp_path / "python"
    stub.write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\n')
    stub.chmod(0o755)
    command = ["make", "setup", f"PYTHON={stub}"]
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "constraints.txt").touch()
    result = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert result.stdout.splitlines() == [
        "make: this Python has no venv: install it (Debian, Ubuntu: apt install python3-venv)"
    ]
