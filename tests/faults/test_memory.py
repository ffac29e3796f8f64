"""Trainings that want more memory than they may have: they end once, with what to do, and nobody else notices."""

import os
import signal
from pathlib import Path

import httpx
import pytest

from service.local.cluster import Cluster, wait_for
from tests.faults.watching import ENDLESS, FAST, SHORT, Watch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LIMIT = 900_000_000
# A step keeps what 46 predicates × 32 ranks reach after each of four steps of a walk: several gigabytes.
GREEDY = {"kb": "umls", "config": {"method": "neurallp", "rank": 32, "batch_size": 46, "length": 4, "epochs": 50}}


def test_a_training_beyond_its_memory_fails_once_and_the_worker_goes_on(tmp_path: Path) -> None:
    with Cluster(tmp_path, FAST | {"train_memory_bytes": str(LIMIT)}) as cluster:
        cluster.start("api", "dispatch")
        watch = Watch(cluster)
        job = watch.submit(GREEDY)  # accepted: no worker has said yet how much memory it has
        assert job["forecast"]["peak_bytes"] > LIMIT
        cluster.start("train")
        (failed,) = watch.wait_for_end(job["id"])
        assert (failed.status, failed.attempt, failed.error["code"]) == ("failed", 1, "out_of_memory")
        assert failed.error["limit_bytes"] == LIMIT
        assert "CTP_TRAIN_MEMORY_BYTES" in failed.error["detail"]
        assert "`rank`" in failed.error["detail"]
        (trained,) = watch.wait_for_end(watch.submit(SHORT)["id"])
        assert trained.status == "succeeded"
        refused = _refusal(watch)
        assert (refused.status_code, refused.json()["code"]) == (422, "too_little_memory")
        assert refused.json()["limit_bytes"] == LIMIT
        assert refused.json()["forecast"]["peak_bytes"] > LIMIT
        assert refused.json()["setting"] == "CTP_TRAIN_MEMORY_BYTES"
        watch.check_nothing_is_lost()


def _refusal(watch: Watch) -> httpx.Response:
    """The answer to the same training once the worker has reported its memory."""
    with watch.client() as client:
        return client.post("/train", json=GREEDY)


def test_a_child_killed_from_outside_is_tried_once_more_and_told_as_such(watch: Watch) -> None:
    job, other = watch.submit(ENDLESS), watch.submit(SHORT)
    for attempt in (1, 2):
        watch.wait_for_epoch(job["id"], 1, attempt)
        (child,) = watch.cluster.parts["train"].children()
        os.kill(child, signal.SIGKILL)
    failed, trained = watch.wait_for_end(job["id"], other["id"])
    assert (failed.status, failed.attempt, failed.error["code"]) == ("failed", 2, "worker_lost")
    assert "killed from outside" in failed.error["detail"]
    assert trained.status == "succeeded"
    wait_for(lambda: not (watch.artifacts / "jobs" / job["id"]).exists(), "its files are removed", 30)


def test_a_process_that_crashes_by_itself_each_time_is_tried_three_times(watch: Watch) -> None:
    job = watch.submit(ENDLESS)
    for attempt in (1, 2, 3):
        watch.wait_for_epoch(job["id"], 1, attempt)
        (child,) = watch.cluster.parts["train"].children()
        os.kill(child, signal.SIGSEGV)
    (failed,) = watch.wait_for_end(job["id"])
    assert (failed.status, failed.attempt, failed.error["code"]) == ("failed", 3, "worker_lost")
