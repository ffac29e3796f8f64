"""Evaluations whose worker is killed, whose job is cancelled, and which wait behind nothing."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.local.cluster import Cluster, wait_for
from tests.faults.watching import FAST

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
# The child waits here before each batch of questions, until the file is there.
HOLD = """
import os, time
import ctp_core.evaluate as module
scored = module._Counted.__call__
def held(self, goals):
    while not os.path.exists(os.environ["HOLD_UNTIL"]):
        time.sleep(0.05)
        self.on_part(self.done, self.total)
    return scored(self, goals)
module._Counted.__call__ = held
"""


@pytest.fixture
def go(cluster: Cluster) -> Path:
    """The file that lets evaluations go on; not there yet."""
    file = cluster.folder / "go"
    file.unlink(missing_ok=True)
    return file


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    tmp_path = tmp_path_factory.mktemp("e")
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hook:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name != 'worker.evaluation_job': return None\n"
        "        sys.meta_path.remove(self)\n"
        f"        exec({HOLD!r}, {{}})\n"
        "sys.meta_path.insert(0, Hook())\n"
    )
    path = os.pathsep.join([str(tmp_path / "hooks"), os.environ.get("PYTHONPATH", "")])
    environment = {"PYTHONPATH": path, "HOLD_UNTIL": str(tmp_path / "c" / "go")}
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


def begun(client: httpx.Client) -> str:
    """The id of an evaluation that has loaded its model and waits for the file."""
    found = client.post("/evaluations", json={"model": "m", "limit": 50})
    assert found.status_code == 202, found.text
    evaluation = str(found.json()["id"])
    wait_until_asking(client, evaluation, 1)
    return evaluation


def wait_until_asking(client: httpx.Client, evaluation: str, attempt: int) -> None:
    def asks() -> bool:
        state = client.get(f"/evaluations/{evaluation}").json()
        assert state["status"] in ("queued", "running"), state["error"]
        return bool(state["attempt"] == attempt and state["progress"].get("phase") == "evaluation")

    wait_for(asks, f"attempt {attempt} has begun", 120)


def ended(client: httpx.Client, evaluation: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/evaluations/{evaluation}", params={"wait": 150}).json()
    return found


def test_an_evaluation_whose_worker_is_killed_is_taken_up_again(
    cluster: Cluster, client: httpx.Client, go: Path
) -> None:
    evaluation = begun(client)
    (child,) = cluster.parts["batch"].children()
    os.kill(child, signal.SIGKILL)
    wait_until_asking(client, evaluation, 2)
    cluster.parts["batch"].kill()
    cluster.start("batch")
    wait_until_asking(client, evaluation, 3)
    # While it runs, trainings go on beside it, and it can be cancelled at once.
    busy = begun_behind(client)
    go.touch()
    found = ended(client, evaluation)
    assert (found["status"], found["attempt"], found["num_items"]) == ("succeeded", 3, 50)
    assert client.get(f"/evaluations/{busy}").json()["status"] == "cancelled"
    again = client.post("/evaluations", params={"wait": 150}, json={"model": "m", "limit": 50}).json()
    assert again["metrics"] == found["metrics"], "what a lost attempt has done counts for nothing"


def begun_behind(client: httpx.Client) -> str:
    """The id of a second evaluation, cancelled while the first one holds the worker; a training ends meanwhile."""
    second = str(client.post("/evaluations", json={"model": "m", "limit": 50}).json()["id"])
    trained = {"kb": "family", "config": {"method": "distmult", "search": [], "epochs": 1}}
    assert client.post("/train", params={"wait": 150}, json=trained).json()["model"]["status"] == "ready"
    assert client.get(f"/evaluations/{second}").json()["status"] == "queued"
    assert client.post(f"/jobs/{second}/cancel").status_code == 200
    return second


def test_a_running_evaluation_that_is_cancelled_frees_its_worker(client: httpx.Client, go: Path) -> None:
    evaluation = begun(client)
    assert client.delete(f"/evaluations/{evaluation}").json()["code"] == "evaluation_active"
    assert client.post(f"/jobs/{evaluation}/cancel").json()["status"] == "cancelled"
    following = begun(client)
    go.touch()
    assert ended(client, following)["status"] == "succeeded"
    assert client.delete(f"/evaluations/{evaluation}").status_code == 204
    assert client.get(f"/evaluations/{evaluation}").status_code == 404
