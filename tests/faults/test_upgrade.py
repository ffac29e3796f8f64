"""A service of an earlier commit is stopped with jobs under way; the service as it is now takes all of them over.

The way back is a backup from before, made and restored as the README says.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from service.local.cluster import free_port, wait_for
from tests.running import running_service

pytestmark = [pytest.mark.slow, pytest.mark.long]
REPOSITORY = Path(__file__).parent.parent.parent
EARLIER = "9df66e5"  # the last commit with the third schema
LONG = {"kb": "nations", "config": {"method": "proofs", "epochs": 5000}}
WAITING = [
    {"kb": "family", "preset": "fast"},
    {"kb": "family", "config": {"method": "rules"}},
    {"kb": "family", "config": {"method": "ctp", "epochs": 3}},
    {"kb": "family", "config": {"method": "complex", "epochs": 3, "rank": 5000}},  # more than may be asked for now
    {"kb": "family", "config": {"method": "hybrid"}},
    {"kb": "family", "config": {"method": "proofs", "epochs": 3}, "seeds": [0, 1]},
]


def unpack_earlier(folder: Path) -> bool:
    command = ["git", "-C", str(REPOSITORY), "archive", "--output", str(folder / "code.tar"), EARLIER]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        return False
    subprocess.run(["tar", "xf", "code.tar"], cwd=folder, check=True)
    return True


def back_up(data: Path, backup: Path) -> None:
    """What `sqlite3 .ctp/ctp.db ".backup backup/ctp.db"` and `cp -r .ctp/artifacts backup/` do."""
    backup.mkdir()
    with closing(sqlite3.connect(data / "ctp.db")) as source, closing(sqlite3.connect(backup / "ctp.db")) as copy:
        source.backup(copy)
    shutil.copytree(data / "artifacts", backup / "artifacts")


def restore(backup: Path, data: Path) -> None:
    shutil.rmtree(data / "artifacts")
    shutil.copytree(backup / "artifacts", data / "artifacts")
    for rest in ("ctp.db-wal", "ctp.db-shm"):
        (data / rest).unlink(missing_ok=True)
    shutil.copy(backup / "ctp.db", data / "ctp.db")


@pytest.mark.timeout(1200)
def test_jobs_of_an_earlier_version_run_after_the_upgrade_and_only_a_backup_leads_back(
    tmp_path: Path, needs: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier, data, backup = (tmp_path / name for name in ("earlier", "data", "backup"))
    earlier.mkdir()
    needs(f"commit {EARLIER}", unpack_earlier(earlier))
    monkeypatch.chdir(earlier)  # a module that is run is looked for here first
    with running_service(data, {"PYTHONPATH": str(earlier)}) as service, service.client() as client:
        jobs = [client.post("/train", json={"name": "m", **body}).json()["job"]["id"] for body in (LONG, *WAITING)]

        def begun() -> bool:
            return bool(client.get(f"/jobs/{jobs[0]}").json()["progress"].get("epoch"))

        wait_for(begun, "the first job trains")
        back_up(data, backup)  # while it runs
    monkeypatch.chdir(REPOSITORY)
    with running_service(data) as service, service.client() as client:
        wait_for(lambda: client.get(f"/jobs/{jobs[0]}").json()["status"] == "running", "it goes on")
        assert client.post(f"/jobs/{jobs[0]}/cancel").status_code == 200
        ended = [client.get(f"/jobs/{job}", params={"wait": 300}).json() for job in jobs[1:]]
        assert [(job["status"], job["error"]) for job in ended] == [("succeeded", None)] * len(WAITING)
        goal = {"subject": "rick", "predicate": "grandparent"}
        for job in ended:
            assert client.post("/query", json={"model": job["model_id"], "goal": goal}).json()["answers"]
    monkeypatch.chdir(earlier)
    command = [sys.executable, "-m", "service.cli", "up", "--port", str(free_port())]
    environment = os.environ | {"PYTHONPATH": str(earlier), "CTP_DATA_DIR": str(data)}
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 1
    assert "made by a newer version of ctp" in refused.stdout.splitlines()[-1]
    assert "Traceback" not in refused.stdout + refused.stderr
    restore(backup, data)
    with running_service(data, {"PYTHONPATH": str(earlier)}) as service, service.client() as client:
        found = [client.get(f"/jobs/{job}").json()["status"] for job in jobs]
        assert set(found) <= {"queued", "running"}, "as they were when the backup was made"
        wait_for(lambda: client.get(f"/jobs/{jobs[0]}").json()["status"] == "running", "the first job goes on")
        for job in jobs:
            assert client.post(f"/jobs/{job}/cancel").status_code == 200
