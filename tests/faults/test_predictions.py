"""Predictions in bulk whose worker is killed in their middle: no row is lost, and none comes twice."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from service.local.cluster import Cluster, wait_for
from tests.faults.watching import FAST

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
# Asks two questions at a time and stores a part after each, but goes no further than the file says.
HOLD = """
import os, time
import ctp_core.predict as module
module.MOST_AT_ONCE = 2
batches = module.Predictor.batches
def held(self, first=0):
    import worker.prediction_job
    worker.prediction_job.PART_ROWS = 1
    for done, rows in batches(self, first):
        yield done, rows
        while done >= int(open(os.environ["HOLD_AT"]).read() or 0):
            time.sleep(0.05)
            yield done, []
module.Predictor.batches = held
"""
WANTED = {"model": "m", "predicate": "treaties", "min_score": 0.0, "exclude_known": False, "top_k_per_question": 3}


@pytest.fixture
def go_to(cluster: Cluster) -> Any:
    """Lets predictions go on to a question."""
    file = cluster.folder / "at"

    def write(step: int) -> None:
        part = file.with_suffix(".part")
        part.write_text(str(step))
        part.replace(file)

    return write


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    tmp_path = tmp_path_factory.mktemp("p")
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hook:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name != 'worker.prediction_job': return None\n"
        "        sys.meta_path.remove(self)\n"
        f"        exec({HOLD!r}, {{}})\n"
        "sys.meta_path.insert(0, Hook())\n"
    )
    path = os.pathsep.join([str(tmp_path / "hooks"), os.environ.get("PYTHONPATH", "")])
    environment = {"PYTHONPATH": path, "HOLD_AT": str(tmp_path / "c" / "at")}
    with Cluster(tmp_path / "c", FAST, environment) as made:
        made.start("api", "dispatch", "train", "batch")
        yield made


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=cluster.url(), timeout=200) as made:
        trained = {"kb": "nations", "name": "m", "config": {"method": "distmult", "search": [], "epochs": 1}}
        answer = made.post("/train", params={"wait": 150}, json=trained)
        assert answer.json()["model"]["status"] == "ready", answer.text
        yield made


def wait_until_asked(client: httpx.Client, prediction: str, attempt: int, questions: int) -> None:
    def asked() -> bool:
        state = client.get(f"/predictions/{prediction}").json()
        assert state["status"] in ("queued", "running"), state["error"]
        return bool(state["attempt"] == attempt and state["progress"].get("step", 0) >= questions)

    wait_for(asked, f"attempt {attempt} has asked {questions} questions", 120)


def rows_of(client: httpx.Client, prediction: str, folder: Path) -> list[Any]:
    found = client.get(f"/predictions/{prediction}", params={"wait": 150}).json()
    assert found["status"] == "succeeded", found["error"]
    file = folder / f"{prediction}.parquet"
    file.write_bytes(client.get(f"/predictions/{prediction}/download").content)
    rows = duckdb.read_parquet(str(file)).fetchall()
    assert len(rows) == found["num_rows"]
    return rows


def test_a_prediction_whose_worker_is_killed_twice_has_every_row_once(
    cluster: Cluster, client: httpx.Client, go_to: Any, tmp_path: Path
) -> None:
    go_to(4)
    prediction = str(client.post("/predictions", json=WANTED).json()["id"])
    wait_until_asked(client, prediction, 1, 4)
    (child,) = cluster.parts["batch"].children()
    os.kill(child, signal.SIGKILL)
    go_to(8)
    wait_until_asked(client, prediction, 2, 8)
    cluster.parts["batch"].kill()
    cluster.start("batch")
    go_to(1_000_000)
    rows = rows_of(client, prediction, tmp_path)
    undisturbed = str(client.post("/predictions", json=WANTED).json()["id"])
    assert rows == rows_of(client, undisturbed, tmp_path)
    assert len({row[:3] for row in rows}) == len(rows) > 10
    assert client.get(f"/predictions/{prediction}").json()["attempt"] == 3


def test_a_running_prediction_that_is_cancelled_frees_its_worker_and_leaves_no_files(
    cluster: Cluster, client: httpx.Client, go_to: Any
) -> None:
    go_to(4)
    prediction = str(client.post("/predictions", json=WANTED).json()["id"])
    wait_until_asked(client, prediction, 1, 4)
    folder = cluster.folder / "artifacts" / "predictions" / prediction
    assert any(folder.iterdir())
    assert client.delete(f"/predictions/{prediction}").json()["code"] == "prediction_active"
    assert client.post(f"/jobs/{prediction}/cancel").json()["status"] == "cancelled"
    following = str(client.post("/predictions", json=WANTED).json()["id"])
    wait_until_asked(client, following, 1, 4)
    assert client.get(f"/predictions/{prediction}/download").json()["code"] == "prediction_not_ready"
    wait_for(lambda: not folder.exists(), "its files are removed", 60)
    go_to(1_000_000)
