"""API, dispatcher and Redis that go away, and calls that are repeated around it."""

import signal
import threading
import time
import uuid
from pathlib import Path

import httpx
import pytest
import redis
from sqlalchemy import func, select

from service.db.tables import Job
from service.local.cluster import wait_for
from tests.faults.watching import ENDLESS, SHORT, Watch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def num_jobs(watch: Watch) -> int:
    database = watch.cluster.database()
    with database.read() as session:
        count = session.scalar(select(func.count()).select_from(Job))
    database.dispose()
    return count or 0


def test_an_api_killed_between_commit_and_publish_loses_no_job(watch: Watch) -> None:
    watch.cluster.parts["dispatch"].kill()  # so that nothing can be published
    job = watch.submit(SHORT)
    watch.cluster.parts["api"].kill()
    assert watch.job(job["id"]).published_at is None
    watch.cluster.start("api", "dispatch")
    wait_for(lambda: watch.job(job["id"]).attempt > 0, "the job starts", 30)
    assert watch.wait_for_end(job["id"])[0].status == "succeeded"


@pytest.mark.parametrize("milliseconds", [0, 5, 30])
def test_the_same_idempotency_key_around_a_kill_is_one_job(watch: Watch, milliseconds: int) -> None:
    before, key, body = num_jobs(watch), uuid.uuid4().hex, SHORT | {"name": f"m-{uuid.uuid4().hex[:8]}"}

    def send() -> httpx.Response | None:
        try:
            with watch.client() as client:
                return client.post("/train", json=body, headers={"Idempotency-Key": key})
        except httpx.TransportError:
            return None

    sender = threading.Thread(target=send)
    sender.start()
    time.sleep(milliseconds / 1000)  # somewhere in the middle of the call: that is what is being tested
    watch.cluster.parts["api"].kill()
    sender.join()
    watch.cluster.start("api")
    answers = [send(), send()]
    assert all(answer is not None and answer.status_code == 202 for answer in answers)
    assert num_jobs(watch) == before + 1
    (job_id,) = {answer.json()["job"]["id"] for answer in answers if answer is not None}
    assert watch.wait_for_end(job_id)[0].status == "succeeded"


def test_twenty_seconds_without_redis_cost_no_job(watch: Watch) -> None:
    running = watch.submit(ENDLESS)
    watch.wait_for_epoch(running["id"], 1)
    watch.cluster.parts["redis"].kill()
    stopped = time.monotonic()
    accepted = [watch.submit(SHORT)["id"] for _ in range(3)]
    assert watch.cancel(running["id"]).status_code == 200
    time.sleep(max(0.0, 20 - (time.monotonic() - stopped)))  # the fault itself
    watch.cluster.start("redis")
    assert [job.status for job in watch.wait_for_end(*accepted)] == ["succeeded"] * 3


def test_a_flushed_redis_forgets_no_job_and_runs_none_twice(watch: Watch) -> None:
    first = watch.submit(ENDLESS)
    watch.wait_for_epoch(first["id"], 1)
    queued = [watch.submit(SHORT)["id"] for _ in range(20)]
    wait_for(lambda: all(watch.job(job).published_at for job in queued), "all are published", 60)
    with redis.Redis.from_url(watch.cluster.redis_url) as server:
        server.flushall()
    watch.cancel(first["id"])
    ended = watch.wait_for_end(*queued)
    assert [(job.status, job.attempt) for job in ended] == [("succeeded", 1)] * 20


def test_a_hung_dispatcher_hands_over_to_another(watch: Watch) -> None:
    dispatcher = watch.cluster.parts["dispatch"]
    assert dispatcher.process is not None
    watch.freeze(dispatcher.process.pid, *dispatcher.children())
    watch.cluster.start("dispatch-2")
    job = watch.submit(SHORT)
    assert watch.wait_for_end(job["id"])[0].status == "succeeded"
    dispatcher.signal(signal.SIGCONT)
    watch.cluster.parts["dispatch-2"].stop()
    assert watch.wait_for_end(watch.submit(SHORT)["id"])[0].status == "succeeded"


def test_a_more_urgent_job_overtakes_those_that_wait(watch: Watch) -> None:
    running = watch.submit(ENDLESS)
    watch.wait_for_epoch(running["id"], 1)
    patient, urgent = watch.submit(SHORT, priority=0)["id"], watch.submit(SHORT, priority=9)["id"]
    wait_for(lambda: all(watch.job(job).published_at for job in (patient, urgent)), "both are published", 60)
    watch.cancel(running["id"])
    first, second = sorted(watch.wait_for_end(patient, urgent), key=lambda job: job.started_at or 0.0)
    assert (first.id, second.id) == (urgent, patient)


def test_a_disk_without_room_for_logs_ends_no_loop(watch: Watch) -> None:
    """Redis goes away, which every loop writes a line about that cannot be written."""
    (trained,) = watch.wait_for_end(watch.submit(SHORT)["id"])
    goal = {"subject": None, "predicate": "grandparent", "object": "morty"}
    watch.cluster.start("query")
    logs = {name: watch.cluster.parts[name].log for name in ("api", "dispatch")}
    try:
        for name in logs:
            watch.cluster.parts[name].stop()
            watch.cluster.parts[name].log = Path("/dev/full")
            watch.cluster.start(name)
        dispatcher = watch.cluster.parts["dispatch"].process
        watch.cluster.parts["redis"].kill()
        time.sleep(2)  # several turns of each loop
        watch.cluster.start("redis")
        watch.cluster.wait_until_ready()
        with watch.client() as client:
            answer = client.post("/query", json={"model": trained.model_id, "goal": goal})
        assert answer.status_code == 200, answer.text
        assert dispatcher is not None
        assert dispatcher.poll() is None
    finally:
        for name, log in logs.items():
            watch.cluster.parts[name].stop()
            watch.cluster.parts[name].log = log
            watch.cluster.start(name)
