"""Many machines on one: PostgreSQL, Redis and S3, two APIs, two dispatchers, three workers."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx
import pytest

from service.local.cluster import Cluster
from service.local.postgres import Postgres, postgres
from service.local.processes import CTP
from tests.faults.watching import FAST, JOB, SHORT, Watch, undisturbed
from tests.object_store import BUCKET, object_store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
PARTS = ("api", "api-2", "dispatch", "dispatch-2", "train", "train-2", "query")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


@pytest.fixture(scope="module")
def watch(server: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    with object_store() as store:
        urls = {"database_url": server.url, "artifacts_url": f"s3://{BUCKET}/ctp"}
        with Cluster(tmp_path_factory.mktemp("t"), FAST | urls, store.variables) as cluster:
            cluster.start(*PARTS)
            cluster.wait_until_ready("api-2")
            yield Watch(cluster)


def test_what_one_api_accepts_two_workers_train_and_another_api_answers(watch: Watch) -> None:
    jobs = [watch.submit(JOB)["id"] for _ in range(4)]
    ended = watch.wait_for_end(*jobs, seconds=300)
    assert [job.status for job in ended] == ["succeeded"] * 4
    assert len({job.worker for job in ended}) == 2
    with watch.client("api-2") as client:
        goal = {"subject": "poland", "predicate": "ngoorgs3", "object": None}
        answers = [client.post("/query", json={"model": job.model_id, "goal": goal}).json()["answers"] for job in ended]
        assert answers[0]
        assert answers == [answers[0]] * 4
        archive = client.get(f"/models/{ended[0].model_id}/export").content
        sent = {"content": archive, "headers": {"content-type": "application/zip"}}
        assert client.post("/models/import", params={"name": "imported"}, **sent).status_code == 201
    assert watch.files(ended[0].model_id) == undisturbed(ended[0])
    assert not (watch.cluster.folder / "artifacts").exists()


def test_several_seeds_on_two_workers_end_their_job_once(watch: Watch) -> None:
    (parent,) = watch.wait_for_end(watch.submit(SHORT, seeds=[0, 1, 2, 3])["id"])
    assert parent.status == "succeeded"
    watch.wait_until_staged_is_swept()


def test_a_worker_killed_here_is_resumed_there_in_the_same_bits(watch: Watch) -> None:
    job = watch.submit()
    watch.wait_for_epoch(job["id"], 3)
    holder = (watch.job(job["id"]).worker or "").rsplit(":", 1)[1]
    victim = next(n for n in ("train", "train-2") if int(holder) in watch.cluster.parts[n].children())
    watch.cluster.parts[victim].kill()
    (ended,) = watch.wait_for_end(job["id"])
    watch.cluster.start(victim)
    assert (ended.status, ended.attempt) == ("succeeded", 2)
    assert watch.files(ended.model_id) == undisturbed(ended)


def test_twenty_seconds_without_the_database_cost_no_job(watch: Watch, server: Postgres) -> None:
    job = watch.submit()
    watch.wait_for_epoch(job["id"], 2)
    server.stop()
    stopped = time.monotonic()
    with watch.client() as client:
        refused = client.post("/train", json=SHORT | {"name": "m"})
        assert (refused.status_code, refused.json()["code"]) == (503, "part_is_away")
        assert "retry-after" in refused.headers
    time.sleep(max(0.0, 20 - (time.monotonic() - stopped)))  # the fault itself
    server.start()
    (ended,) = watch.wait_for_end(job["id"])
    assert (ended.status, ended.attempt, ended.crashes) == ("succeeded", 1, 0), "its worker never died"
    assert watch.files(ended.model_id) == undisturbed(ended)
    assert watch.wait_for_end(watch.submit(SHORT)["id"])[0].status == "succeeded"


@contextmanager
def hung(server: Postgres) -> Iterator[None]:
    """Its connections stay open, and nobody answers."""
    assert server.part.process is not None
    processes = [server.part.process.pid, *server.part.children()]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def test_a_database_that_hangs_is_a_503_within_seconds_and_costs_no_job(watch: Watch, server: Postgres) -> None:
    job = watch.submit()
    watch.wait_for_epoch(job["id"], 2)
    alive = [*CTP, "alive", "dispatch"]
    with hung(server), watch.client() as client:
        # A statement may take a minute: whoever waited for one would be later than this.
        ready = client.get("/readyz", timeout=40)
        refused = client.get("/jobs", timeout=40)
        dispatcher = subprocess.run(alive, env=watch.cluster.variables("dispatch"), check=False, timeout=60)
    assert (ready.status_code, ready.json()["parts"]["database"]) == (503, "no answer")
    assert (refused.status_code, refused.json()["code"]) == (503, "part_is_away")
    assert dispatcher.returncode == 1
    watch.cluster.wait_until_ready()
    (ended,) = watch.wait_for_end(job["id"])
    assert (ended.status, ended.attempt, ended.crashes) == ("succeeded", 1, 0)


def test_calls_at_the_same_moment_with_one_key_create_one_job(watch: Watch) -> None:
    def send(name: str) -> httpx.Response:
        with watch.client(name) as client:
            return client.post("/train", json=SHORT | {"name": "same"}, headers={"Idempotency-Key": "same"})

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, ["api", "api-2"] * 4))
    assert {answer.status_code for answer in answers} == {202}
    (job_id,) = {answer.json()["job"]["id"] for answer in answers}
    watch.wait_for_end(job_id)


def test_versions_created_at_the_same_moment_have_numbers_of_their_own(watch: Watch) -> None:
    def send(name: str) -> int:
        with watch.client(name) as client:
            answer = client.post("/train", json=SHORT | {"name": "busy"})
            watch.wait_for_end(answer.json()["job"]["id"])
            version: int = answer.json()["model"]["version"]
            return version

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(send, ["api", "api-2"] * 3)) == [1, 2, 3, 4, 5, 6]
