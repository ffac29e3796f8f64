"""Model storage that goes away while jobs need it: they wait, and nothing else does."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from service.errors import Unavailable
from service.local.cluster import Cluster, wait_for
from service.models.probe import PROBE
from service.models.transfer import check_answers
from service.queries.batcher import Batcher
from tests.faults.watching import FAST, JOB, SHORT, Watch, undisturbed
from tests.object_store import BUCKET, ObjectStore, object_store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
AWAY_SECONDS = 10


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as running:
        yield running


@pytest.fixture(scope="module")
def watch(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    settings = FAST | {"artifacts_url": f"s3://{BUCKET}/ctp"}
    with Cluster(tmp_path_factory.mktemp("s"), settings, store.variables) as cluster:
        cluster.start("api", "dispatch", "train", "query")
        cluster.wait_until_ready()
        yield Watch(cluster)


def wait_for_line(watch: Watch, event: str, before: int) -> None:
    wait_for(lambda: watch.log("train").count(f'"{event}"') > before, f"the worker says {event}", 120)


def waiting_for(watch: Watch, job_id: str) -> tuple[str, str | None]:
    """Status of the job, and what it says that it waits for."""
    with watch.client() as client:
        job = client.get(f"/jobs/{job_id}").json()
    return job["status"], job["waiting_for"]


def first_status(watch: Watch, job_id: str) -> str:
    """The first status that somebody who begins to listen now is sent."""
    with watch.client() as client, client.stream("GET", f"/jobs/{job_id}/events") as events:
        lines = events.iter_lines()
        next(line for line in lines if line == "event: status")
        return next(line for line in lines if line.startswith("data: "))


def test_a_job_that_ends_while_storage_is_away_waits_with_its_model(watch: Watch, store: ObjectStore) -> None:
    job = watch.submit(JOB)
    watch.wait_for_epoch(job["id"], 2)
    store.stop()
    stopped = time.monotonic()
    wait_for_line(watch, "checkpoint_not_saved", 0)
    wait_for_line(watch, "storage_away", 0)
    time.sleep(max(0.0, AWAY_SECONDS - (time.monotonic() - stopped)))  # the fault itself
    assert waiting_for(watch, job["id"]) == ("running", "storage")
    assert '"waiting_for": "storage"' in first_status(watch, job["id"])
    store.start()
    (ended,) = watch.wait_for_end(job["id"])
    assert (ended.status, ended.attempt, ended.crashes) == ("succeeded", 1, 0)
    assert waiting_for(watch, job["id"]) == ("succeeded", None)
    assert watch.files(ended.model_id) == undisturbed(ended)


def test_a_checkpoint_that_cannot_be_read_now_is_waited_for_and_not_taken_for_damaged(
    watch: Watch, store: ObjectStore
) -> None:
    job = watch.submit(JOB)
    watch.wait_for_epoch(job["id"], 4)
    watch.cluster.parts["train"].stop()
    store.stop()
    before, resumed = watch.log("train").count('"storage_away"'), watch.log("train").count('"job_resumed"')
    watch.cluster.start("train")
    wait_for_line(watch, "storage_away", before + 1)
    assert waiting_for(watch, job["id"]) == ("running", "storage")
    store.start()
    wait_for(lambda: waiting_for(watch, job["id"])[1] is None, "it waits no more", 60)
    (ended,) = watch.wait_for_end(job["id"])
    assert watch.log("train").count('"job_resumed"') == resumed + 1
    assert '"checkpoint_damaged"' not in watch.log("train")
    assert watch.files(ended.model_id) == undisturbed(ended)


def test_a_job_that_waits_for_storage_can_be_cancelled_and_others_are_still_handed_out(
    watch: Watch, store: ObjectStore
) -> None:
    job = watch.submit(JOB)
    watch.wait_for_epoch(job["id"], 2)
    before = watch.log("train").count('"storage_away"')
    store.stop()
    wait_for_line(watch, "storage_away", before)
    cancelled = watch.cancel(job["id"]).json()
    assert (cancelled["status"], cancelled["waiting_for"]) == ("cancelled", None)
    # Its files are due for removal, which fails; the next job is published and claimed nevertheless.
    following = watch.submit(SHORT)
    wait_for(lambda: watch.job(following["id"]).attempt == 1, "the worker is free", 60)
    store.start()
    assert watch.wait_for_end(following["id"])[0].status == "succeeded"


def test_calls_that_need_the_files_say_that_storage_is_away(watch: Watch, store: ObjectStore) -> None:
    (trained,) = watch.wait_for_end(watch.submit(SHORT)["id"])
    goal = {"subject": None, "predicate": "grandparent", "object": "morty"}
    with watch.client() as client:
        archive = client.get(f"/models/{trained.model_id}/export").content
        store.stop()
        try:
            answers = [
                client.get(f"/models/{trained.model_id}/export"),
                client.post("/query", json={"model": trained.model_id, "goal": goal}),
                client.post("/models/import", content=archive, headers={"content-type": "application/zip"}),
            ]
            parts = client.get("/readyz").json()["parts"]
        finally:
            store.start()
        # Nobody has started a worker for evaluations here.
        assert {part for part, state in parts.items() if state != "ok"} == {"storage", "batch_worker"}
        assert parts["storage"] == "storage_away"
        # What is told may be a moment old.
        wait_for(lambda: client.get("/readyz").status_code == 200, "all parts are there again", 30)
        assert [(a.status_code, a.json()["code"]) for a in answers] == [(503, "storage_away")] * 3
        assert all("retry-after" in answer.headers for answer in answers)
        assert client.post("/query", json={"model": trained.model_id, "goal": goal}).status_code == 200


def test_an_import_whose_files_cannot_be_read_back_now_is_not_called_bad(watch: Watch, store: ObjectStore) -> None:
    """Storage goes away after the archive was stored, and before a worker has tried whether it loads."""
    (trained,) = watch.wait_for_end(watch.submit(SHORT)["id"])

    async def check() -> None:
        batcher = Batcher(watch.settings)
        await batcher.start()
        try:
            artifact = watch.artifact(trained.model_id)
            await check_answers(batcher, "default", trained.model_id, artifact, [PROBE])
        finally:
            await batcher.stop()

    store.stop()
    try:
        with pytest.raises(Unavailable) as refused:
            asyncio.run(check())
    finally:
        store.start()
    assert refused.value.code == "storage_away"
    asyncio.run(check())
