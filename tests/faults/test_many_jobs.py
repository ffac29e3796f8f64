"""A thousand jobs at once: all are published, lists stay fast, and none is lost when the queue is emptied."""

import time
from pathlib import Path

import pytest
from redis import Redis

from service.local.cluster import Cluster, wait_for
from service.queue import waiting_jobs
from tests.faults.watching import FAST, SHORT, Watch

pytestmark = [pytest.mark.slow, pytest.mark.long]
JOBS = 1000
PUBLISHED_SECONDS, PAGE_SECONDS = 120, 2.0


@pytest.mark.timeout(1800)
def test_a_thousand_jobs_wait_in_the_queue_and_none_is_lost(tmp_path: Path) -> None:
    with Cluster(tmp_path, FAST | {"max_queued_jobs": str(JOBS)}) as cluster:
        cluster.start("api", "dispatch")
        watch = Watch(cluster)
        with watch.client() as client, Redis.from_url(cluster.redis_url) as redis:
            body = {**SHORT, "name": "many"}
            jobs = [client.post("/train", json=body).json()["job"]["id"] for _ in range(JOBS)]
            assert client.post("/train", json=body).status_code == 429
            wait_for(lambda: waiting_jobs(redis) == set(jobs), "all are published", PUBLISHED_SECONDS)
            for path in ("/jobs", "/jobs?limit=1000", "/models?limit=1000", f"/jobs/{jobs[0]}", "/readyz"):
                began = time.perf_counter()
                client.get(path)
                assert time.perf_counter() - began < PAGE_SECONDS, path
            redis.flushall()
            wait_for(lambda: waiting_jobs(redis) == set(jobs), "all are rung again", PUBLISHED_SECONDS)
            for job in jobs[20:]:
                assert client.post(f"/jobs/{job}/cancel").status_code == 200
            wait_for(lambda: waiting_jobs(redis) == set(jobs[:20]), "all of those are withdrawn", PUBLISHED_SECONDS)
        cluster.start("train", "train-2")
        ended = watch.wait_for_end(*jobs[:20], seconds=600)
        assert {job.status for job in ended} == {"succeeded"}
        watch.check_nothing_is_lost()
