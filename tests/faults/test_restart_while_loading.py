"""The whole service is stopped in the middle of an upload: the name is free again soon, and nothing half is left."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from service.kbs.repository import LOAD_SECONDS
from service.local.cluster import wait_for
from tests.running import RunningService, running_service

pytestmark = [pytest.mark.slow, pytest.mark.long]
CONTENT = "".join(f"e{number}\tp\te{number + 1}\n" for number in range(300_000)).encode()


def upload(service: RunningService) -> int:
    with service.client() as client:
        files = {"file": ("facts.tsv", CONTENT)}
        return client.post("/kbs", data={"name": "cut"}, files=files).status_code


def count(folder: Path, statement: str) -> int:
    with closing(sqlite3.connect(folder / "ctp.db", timeout=30)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {statement}").fetchone()[0])


@pytest.mark.timeout(600)
def test_a_restart_in_the_middle_of_a_load_leaves_nothing_half(tmp_path: Path) -> None:
    with running_service(tmp_path, reconcile_seconds="1") as service:

        def send() -> None:
            with pytest.raises(httpx.HTTPError):
                upload(service)

        sender = threading.Thread(target=send)
        sender.start()
        wait_for(lambda: count(tmp_path, "kbs WHERE name = 'cut' AND status = 'loading'") == 1, "it loads")
        service.process.kill()  # everything else ends with it
        service.process.wait()
        sender.join()
    with running_service(tmp_path, reconcile_seconds="1") as service:
        wait_for(lambda: upload(service) == 201, "the name is free", LOAD_SECONDS + 120)
        with service.client() as client:
            assert client.get("/kbs/cut").json()["num_facts"] == 300_000
        wait_for(lambda: count(tmp_path, "kbs WHERE status != 'ready'") == 0, "what was half loaded is gone")
        assert count(tmp_path, "kb_segments WHERE kb NOT IN (SELECT number FROM kbs)") == 0
        wait_for(lambda: len(list((tmp_path / "artifacts" / "kbs").iterdir())) == count(tmp_path, "kbs"), "its files")
