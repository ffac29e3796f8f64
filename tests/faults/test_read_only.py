"""A data folder that cannot be written: a start says so in one line, a running service goes on where it can."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from service.local.cluster import free_port, wait_for
from tests.running import running_service

pytestmark = [pytest.mark.slow, pytest.mark.long]
# Permissions are nothing to root, unless it gives up that right.
BOUND = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
TRAIN = {"kb": "family", "name": "m", "config": {"method": "complex", "epochs": 2}}
GOAL = {"subject": "rick", "predicate": "grandparent", "object": None}


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    found = [folder, *folder.rglob("*")]
    modes = {path: path.stat().st_mode for path in found if not path.is_socket()}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in modes.items():
            if path.exists():
                path.chmod(mode)


def up(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [*BOUND, sys.executable, "-m", "service.cli", "up", "--port", str(free_port())]
    environment = os.environ | {"CTP_DATA_DIR": str(folder)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def refused_in_one_line(ended: subprocess.CompletedProcess[str], word: str) -> bool:
    last = ended.stdout.strip().splitlines()[-1] if ended.stdout.strip() else ""
    return (
        ended.returncode == 1 and "Traceback" not in ended.stdout + ended.stderr and word in ended.stdout and bool(last)
    )


def test_a_start_on_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, needs: Callable[[str], str]) -> None:
    needs("setpriv")
    with read_only(tmp_path):
        assert refused_in_one_line(up(tmp_path), "cannot be used (Permission denied): set CTP_DATA_DIR")


@pytest.mark.timeout(600)
def test_a_service_whose_folder_cannot_be_written_answers_and_goes_on_afterwards(
    tmp_path: Path, needs: Callable[[str], str]
) -> None:
    needs("setpriv")
    with running_service(tmp_path, through=BOUND) as service, service.client() as client:
        assert client.post("/train?wait=120", json=TRAIN).json()["job"]["status"] == "succeeded"
        with read_only(tmp_path):
            assert client.get("/models").status_code == 200
            assert ask(client).status_code == 200
            refused = client.post("/train", json=TRAIN)
            assert (refused.status_code, refused.headers["content-type"]) == (503, "application/problem+json")
            assert "written" in refused.json()["detail"], refused.text
            wait_for(lambda: client.get("/readyz").status_code == 503, "it is told", 60)
        wait_for(lambda: client.get("/readyz").status_code == 200, "it is over", 60)
        assert client.post("/train?wait=120", json=TRAIN).json()["job"]["status"] == "succeeded"
    with read_only(tmp_path):
        ended = up(tmp_path)
        assert refused_in_one_line(ended, "ctp: "), ended.stdout + ended.stderr


def ask(client: httpx.Client) -> httpx.Response:
    return client.post("/query", json={"model": "m", "goal": GOAL})
