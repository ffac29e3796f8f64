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
    return ctp(folder, "gc", *options)


def ctp(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service.cli", *words]
    environment = os.environ | {"CTP_DATA_DIR": str(folder), **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_orphans_are_listed_then_removed_and_nothing_else_is(service: RunningService, client: httpx.Client) -> None:
    model = train(client)["model"]
    artifacts = service.folder / "artifacts"
    keys = [f"jobs/job_gone/1/.{'0' * 32}.part", f"models/model_gone/import/{'0' * 64}"]
    part, orphan = (artifacts / key for key in keys)
    for folder in (orphan, part):
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_bytes(b"12345")
    assert "orphan" not in gc(service.folder, "--dry-run").stdout, "what is young may be about to get its row"
    listed = gc(service.folder, "--dry-run", "--min-age", "0").stdout.splitlines()
    assert listed == [f"orphan\t5\t{key}" for key in keys]
    assert orphan.exists()
    assert gc(service.folder, "--min-age", "0").returncode == 0
    assert not orphan.exists()
    assert not part.parent.parent.exists()
    assert client.get(f"/models/{model['id']}/export").status_code == 200


def test_a_stray_file_is_named_and_nothing_is_removed_for_it(service: RunningService, client: httpx.Client) -> None:
    model = train(client)["model"]
    strays = [service.folder / "artifacts" / folder / ".DS_Store" for folder in ("", "models", f"models/{model['id']}")]
    for stray in strays:
        stray.write_text("x")
    done = gc(service.folder, "--min-age", "0")
    assert [line for line in done.stdout.splitlines() if line.startswith("foreign")] == [
        "foreign\t1\t.DS_Store",
        "foreign\t1\tmodels/.DS_Store",
        f"foreign\t1\tmodels/{model['id']}/.DS_Store",
    ]
    assert "removed" not in done.stdout
    assert client.get(f"/models/{model['id']}/export").status_code == 200
    for stray in strays:
        stray.unlink()


def test_the_files_of_another_service_are_no_garbage(
    service: RunningService, client: httpx.Client, tmp_path: Path
) -> None:
    model = train(client)["model"]
    url = f"file://{service.folder / 'artifacts'}"
    for words in (["migrate"], ["gc", "--min-age", "0"]):
        done = ctp(tmp_path, *words, CTP_ARTIFACTS_URL=url)
        assert done.returncode == 1
        assert "ctp: the store belongs to another database" in done.stderr
    assert client.get(f"/models/{model['id']}/export").status_code == 200
    assert client.get("/readyz").status_code == 200
