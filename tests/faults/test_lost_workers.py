"""Workers that are killed, stopped or hung while they train."""

import os
import signal
from pathlib import Path

import pytest

from service.local.cluster import Cluster, wait_for
from service.queue import make_celery, publish_job
from tests.faults.watching import ENDLESS, FAST, JOB, SHORT, Watch, undisturbed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_killed_training_child_is_replaced_and_its_job_ends_in_the_same_bits(watch: Watch) -> None:
    job = watch.submit()
    watch.wait_for_epoch(job["id"], 3)
    (child,) = watch.cluster.parts["train"].children()
    os.kill(child, signal.SIGKILL)
    watch.wait_for_epoch(job["id"], 3, attempt=2)
    (ended,) = watch.wait_for_end(job["id"])
    assert (ended.status, ended.attempt) == ("succeeded", 2)
    assert "child_lost" in watch.log("train"), "its worker missed it, before the lease ended"
    assert "job_resumed" in watch.log("train")
    assert watch.files(ended.model_id) == undisturbed(ended)


def test_a_killed_worker_loses_only_the_time_since_its_checkpoint(watch: Watch) -> None:
    job = watch.submit()
    watch.wait_for_epoch(job["id"], 3)
    watch.cluster.parts["train"].kill()
    watch.cluster.start("train")
    (ended,) = watch.wait_for_end(job["id"])
    assert (ended.status, ended.attempt) == ("succeeded", 2)
    assert watch.files(ended.model_id) == undisturbed(ended)


@pytest.mark.long  # forty seconds of waiting
def test_at_the_default_times_a_killed_worker_is_missed_within_45_seconds(tmp_path: Path) -> None:
    defaults = {key: FAST[key] for key in ("checkpoint_seconds", "log_level")}
    with Cluster(tmp_path, defaults) as cluster:
        cluster.start("api", "dispatch", "train")
        watch = Watch(cluster)
        job = watch.submit(ENDLESS)
        watch.wait_for_epoch(job["id"], 2)
        cluster.parts["train"].kill()
        # Thirty seconds of lease and ten until the next look at it; how long a worker takes to start is another matter.
        wait_for(lambda: watch.job(job["id"]).status == "queued", "the job is taken back", 45)
        cluster.start("train")
        wait_for(lambda: watch.job(job["id"]).attempt == 2, "the second attempt", 120)
        assert watch.cancel(job["id"]).status_code == 200
        watch.check_nothing_is_lost()


def test_a_worker_that_was_stopped_for_longer_than_its_lease_writes_nothing_more(watch: Watch) -> None:
    job = watch.submit()
    watch.wait_for_epoch(job["id"], 3)
    worker = watch.cluster.parts["train"]
    assert worker.process is not None
    watch.freeze(worker.process.pid, *worker.children())
    watch.cluster.start("train-2")
    watch.wait_for_epoch(job["id"], 4, attempt=2)
    worker.signal(signal.SIGCONT)
    wait_for(lambda: "lease_lost" in watch.log("train"), "the first one notices", 30)
    (ended,) = watch.wait_for_end(job["id"])
    watch.cluster.parts["train-2"].stop()
    assert (ended.status, ended.attempt) == ("succeeded", 2)
    assert watch.files(ended.model_id) == undisturbed(ended)
    assert len(list((watch.artifacts / "models" / ended.model_id).rglob("manifest.json"))) == 1


def test_a_hung_training_child_is_replaced_and_its_job_goes_on(watch: Watch) -> None:
    job = watch.submit()
    watch.wait_for_epoch(job["id"], 3)
    (child,) = watch.cluster.parts["train"].children()
    watch.freeze(child)
    (ended,) = watch.wait_for_end(job["id"], seconds=60)
    assert (ended.status, ended.attempt) == ("succeeded", 2)
    assert watch.files(ended.model_id) == undisturbed(ended)


def test_a_child_that_hangs_in_a_cancelled_job_keeps_no_other_waiting(watch: Watch) -> None:
    job = watch.submit(ENDLESS)
    watch.wait_for_epoch(job["id"], 1)
    (child,) = watch.cluster.parts["train"].children()
    watch.freeze(child)
    watch.cancel(job["id"])
    (ended,) = watch.wait_for_end(watch.submit(SHORT)["id"], seconds=60)
    assert ended.status == "succeeded"


def test_a_worker_that_is_told_to_stop_gives_its_job_back_unharmed(watch: Watch) -> None:
    job = watch.submit()
    watch.wait_for_epoch(job["id"], 3)
    watch.cluster.parts["train"].stop()
    released = watch.job(job["id"])
    assert (released.status, released.crashes) == ("queued", 0)
    watch.cluster.start("train")
    (ended,) = watch.wait_for_end(job["id"])
    assert (ended.status, ended.crashes) == ("succeeded", 0)
    assert watch.files(ended.model_id) == undisturbed(ended)


def test_the_same_task_rung_five_times_trains_once(watch: Watch) -> None:
    watch.cluster.start("train-2")
    job = watch.submit(JOB)
    app = make_celery(watch.settings)
    for _ in range(5):
        publish_job(app, job["id"], 0)
    (ended,) = watch.wait_for_end(job["id"])
    # Late bells find nothing to do; so does whoever comes after them.
    watch.wait_for_end(watch.submit(SHORT)["id"], watch.submit(SHORT)["id"])
    watch.cluster.parts["train-2"].stop()
    assert (ended.status, watch.job(job["id"]).attempt) == ("succeeded", 1)
    lines = (watch.log("train") + watch.log("train-2")).splitlines()
    assert len([line for line in lines if job["id"] in line and '"job_started"' in line]) == 1
