"""The clock of the database is set by an hour while a job trains and queries are asked."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.local.cluster import Cluster, wait_for
from tests.faults.watching import ENDLESS, FAST, SHORT, Watch

pytestmark = [pytest.mark.slow, pytest.mark.long]
GOAL = {"subject": "rick", "predicate": "grandparent", "object": None}


# Read by every process at its start: the clock of each of its connections is what a file says it is.
SITE = """
import os, sqlite3
from datetime import datetime, timezone

plain = sqlite3.connect

def julianday(_):
    with open(os.environ["TEST_CLOCK"]) as file:
        ahead = float(file.read() or 0)
    return (datetime.now(timezone.utc).timestamp() + ahead) / 86400.0 + 2440587.5

def connect(*arguments, **options):
    connection = plain(*arguments, **options)
    connection.create_function("julianday", 1, julianday)
    return connection

sqlite3.connect = connect
"""


@dataclass(frozen=True)
class Clock:
    """What all parts take for the time: the database's clock."""

    folder: Path

    def set(self, hours: int) -> None:
        written = self.folder / "written"
        written.write_text(str(3600 * hours))
        written.rename(self.folder / "clock")

    @property
    def environment(self) -> dict[str, str]:
        (self.folder / "sitecustomize.py").write_text(SITE)
        path = os.pathsep.join([str(self.folder), *sys.path])
        return {"TEST_CLOCK": str(self.folder / "clock"), "PYTHONPATH": path}


@contextmanager
def service(folder: Path, clock: Clock) -> Iterator[Watch]:
    clock.set(0)
    with Cluster(folder, FAST, clock.environment) as cluster:
        cluster.start("api", "dispatch", "train", "query")
        cluster.wait_until_ready()
        yield Watch(cluster)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_jumps_by_an_hour_costs_no_job_and_no_query(tmp_path: Path, hours: int) -> None:
    clock = Clock(tmp_path)
    with service(tmp_path / "s", clock) as watch:
        model = watch.wait_for_end(watch.submit(SHORT)["id"])[0].model_id
        job = watch.submit(ENDLESS)["id"]
        watch.wait_for_epoch(job, 1)
        clock.set(hours)
        with watch.client() as client:
            body = {"model": model, "goal": GOAL}
            answers = [client.post("/query", json=body).status_code for _ in range(50)]
            assert answers == [200] * 50
        epoch = watch.job(job).progress["epoch"]
        wait_for(lambda: watch.job(job).progress["epoch"] > epoch + 20, "it goes on training", 120)
        assert (watch.job(job).attempt, watch.job(job).crashes) == (1, 0), "its worker was never taken for lost"
        watch.cluster.parts["train"].kill()
        watch.cluster.parts["dispatch"].kill()
        watch.cluster.start("train", "dispatch")
        wait_for(lambda: watch.job(job).attempt == 2, "what a lost worker leaves is taken back", 120)
        clock.set(0)
        watch.cluster.parts["train"].kill()
        watch.cluster.start("train")
        wait_for(lambda: watch.job(job).attempt == 3, "after the clock was put right, too", 120)
        assert watch.cancel(job).status_code == 200
        assert watch.wait_for_end(watch.submit(SHORT)["id"])[0].status == "succeeded"
        watch.check_nothing_is_lost()
