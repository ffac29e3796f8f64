"""`ctp gc` against a service that has trained."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.running import RunningService
from tests.service.test_jobs import train

pytestmark = pytest.mark.slow


def gc(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service.cli", "gc", *options]
    environment = os.environ | {"CTP_DATA_DIR": str(folder)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_orphans_are_listed_then_removed_and_nothing_else_is(service: RunningService, client: httpx.Client) -> None:
    model = train(client)["model"]
    artifacts = service.folder / "artifacts"
    orphan, part = artifacts / "models" / "model_gone" / "abc", artifacts / "jobs" / "job_gone" / ".x.part"
    for folder in (orphan, part):
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_bytes(b"12345")
    assert "orphan" not in gc(service.folder, "--dry-run").stdout, "what is young may be about to get its row"
    listed = gc(service.folder, "--dry-run", "--min-age", "0").stdout.splitlines()
    assert listed == ["orphan\t5\tjobs/job_gone/.x.part", "orphan\t5\tmodels/model_gone/abc"]
    assert orphan.exists()
    assert gc(service.folder, "--min-age", "0").returncode == 0
    assert not orphan.exists()
    assert not part.parent.exists()
    assert client.get(f"/models/{model['id']}/export").status_code == 200
