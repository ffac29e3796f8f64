"""Cancel in every state that a job can be in."""

from pathlib import Path

import psutil
import pytest

from service.db.tables import ModelVersion
from service.local.cluster import Cluster, wait_for
from service.queue import make_redis, waiting_jobs
from tests.faults.watching import ENDLESS, SHORT, Watch

pytestmark = pytest.mark.slow
# The whole KB in one step: most of a minute without a look at the clock.
LONG_STEP = {"kb": "kinship", "config": {"method": "ctp", "search": [], "depth": 2, "batch_size": 100_000}}
IN_STEP_SECONDS = 4  # of work: it takes a second to get there


def model_status(watch: Watch, model_id: str) -> str:
    database = watch.cluster.database()
    with database.read() as session:
        status = session.get_one(ModelVersion, model_id).status
    database.dispose()
    return status


def test_a_running_job_is_cancelled_and_its_worker_is_free_within_ten_seconds(watch: Watch) -> None:
    job = watch.submit(ENDLESS)
    watch.wait_for_epoch(job["id"], 2)
    assert watch.cancel(job["id"]).json()["status"] == "cancelled"
    following = watch.submit(SHORT)
    wait_for(lambda: watch.job(following["id"]).attempt == 1, "the worker is free", 10)
    assert model_status(watch, job["model_id"]) == "cancelled"
    folders = [watch.artifacts / "jobs" / job["id"], watch.artifacts / "models" / job["model_id"]]
    wait_for(lambda: not any(folder.exists() for folder in folders), "no files are left", 30)
    watch.wait_for_end(following["id"])


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_training_that_is_cancelled_in_the_middle_of_a_long_step_gives_its_memory_back_at_once(
    tmp_path: Path,
) -> None:
    """At the default times; it took until the lease of thirty seconds was over."""
    with Cluster(tmp_path, {"log_level": "INFO"}) as cluster:
        cluster.start("api", "dispatch", "train")
        watch = Watch(cluster)
        job = watch.submit(LONG_STEP)
        wait_for(lambda: watch.job(job["id"]).status == "running", "it is taken", 120)
        (number,) = cluster.parts["train"].children()
        child = psutil.Process(number)
        began = child.cpu_times().user
        wait_for(lambda: child.cpu_times().user > began + IN_STEP_SECONDS, "it is in its first step", 240)
        assert watch.cancel(job["id"]).json()["status"] == "cancelled"
        wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "its memory is free", 15)
        assert "it went on with a job that is not its own any more" in watch.log("train")
        assert (watch.job(job["id"]).status, watch.job(job["id"]).attempt) == ("cancelled", 1)
        watch.check_nothing_is_lost()


def test_a_queued_job_never_runs_once_it_is_cancelled(watch: Watch) -> None:
    running, queued = watch.submit(ENDLESS), watch.submit(SHORT)
    watch.wait_for_epoch(running["id"], 1)
    assert watch.cancel(queued["id"]).json()["status"] == "cancelled"
    watch.cancel(running["id"])
    watch.wait_for_end(watch.submit(SHORT)["id"])
    assert watch.job(queued["id"]).attempt == 0


def test_cancelled_seeds_do_not_hold_up_the_next_job(watch: Watch) -> None:
    running, seeds = watch.submit(ENDLESS), watch.submit(SHORT, seeds=list(range(30)))
    watch.wait_for_epoch(running["id"], 1)
    children = [child["id"] for child in seeds["children"]]
    wait_for(lambda: all(watch.job(child).published_at for child in children), "all are in the queue", 30)
    watch.cancel(seeds["id"])
    following = watch.submit(SHORT)
    with make_redis(watch.settings) as redis:
        # The one that runs may be there once more: it is rung again when its worker takes long to claim it.
        wait_for(lambda: waiting_jobs(redis) - {running["id"]} == {following["id"]}, "only the next one waits", 60)
    watch.cancel(running["id"])
    (ended,) = watch.wait_for_end(following["id"])
    assert ended.status == "succeeded"


def test_a_job_whose_worker_is_dead_is_cancelled_at_once(watch: Watch) -> None:
    job = watch.submit(ENDLESS)
    watch.wait_for_epoch(job["id"], 1)
    watch.cluster.parts["train"].kill()
    assert watch.cancel(job["id"]).json()["status"] == "cancelled"
    watch.cluster.start("train")
    watch.wait_for_end(watch.submit(SHORT)["id"])
    assert (watch.job(job["id"]).status, watch.job(job["id"]).attempt) == ("cancelled", 1)


def test_one_of_several_seeds_can_be_cancelled_and_the_others_end_the_job(watch: Watch) -> None:
    parent = watch.submit(SHORT, seeds=[0, 1])
    watch.cancel(parent["children"][1]["id"])
    (ended,) = watch.wait_for_end(parent["id"])
    assert ended.status == "succeeded"
    assert model_status(watch, ended.model_id) == "ready"


def test_what_has_ended_stays_as_it_is(watch: Watch) -> None:
    succeeded, cancelled = watch.submit(SHORT), watch.submit(ENDLESS)
    watch.wait_for_end(succeeded["id"])
    watch.cancel(cancelled["id"])
    for job, status in ((succeeded, "succeeded"), (cancelled, "cancelled")):
        again = watch.cancel(job["id"])
        assert (again.status_code, again.json()["code"]) == (409, "job_finished")
        assert watch.job(job["id"]).status == status
