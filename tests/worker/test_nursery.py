"""The child that trains, and what its worker does about its end."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.db.engine import Database
from service.db.migrate import migrate
from service.db.tables import Job
from service.kbs import service as kbs
from service.local.cluster import Cluster, wait_for
from service.settings import Settings
from service.training import lease, service
from service.training.schemas import TrainRequest
from tests.built_kbs import built
from tests.stores import files_of
from worker.nursery import Child, Ending, Nursery


@pytest.mark.slow
def test_a_child_is_reused_and_replaced_when_it_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(tmp_path) as cluster:
        for key, value in cluster.variables("train").items():
            monkeypatch.setenv(key, value)
        nursery = Nursery(Settings())
        nursery.run("job_that_is_not_there")
        child = nursery.prepare()
        assert child is not None
        nursery.run("job_that_is_not_there")
        assert nursery.prepare() is child
        os.kill(child.process.pid, signal.SIGKILL)
        wait_for(lambda: not child.alive, "the child is gone")
        child.close()
        nursery.run("job_that_is_not_there")
        second = nursery.prepare()
        assert second is not None
        assert second is not child
        nursery.close()
        assert second.close() == 0
        assert nursery.prepare() is None


# In the middle of a long step of a job that was cancelled: only the thread that beats knows of it.
CLINGING = """
import time
print("beat", flush=True)
while True:
    time.sleep(0.1)
    print("clings", flush=True)
"""


def test_a_child_in_a_long_step_of_a_cancelled_job_is_ended_long_before_its_lease() -> None:
    lease = 30
    child = Child(lease, (sys.executable, "-c", CLINGING))
    started = time.monotonic()
    assert child.run("job") is Ending.CLUNG
    assert child.close() == -signal.SIGKILL
    assert time.monotonic() - started < lease / 2


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'ctp.db'}")
    migrate(database.engine)
    yield database
    database.dispose()


@pytest.fixture
def running(sqlite_database: Database) -> tuple[Nursery, str]:
    """A nursery, and a job that its child has claimed."""
    kbs.create(sqlite_database, files_of(sqlite_database), "default", "small", built([("a", "p", "b")]))
    settings = Settings(database_url=sqlite_database.engine.url.render_as_string())
    with sqlite_database.write() as session:
        job, _ = service.submit(session, "default", TrainRequest(kb="small"), settings)
        lease.claim(session, job.id, "worker", 30)
    return Nursery(settings), job.id


def ended(running: tuple[Nursery, str], ending: Ending, code: int) -> Job:
    nursery, job_id = running
    with nursery.database.write() as session:
        job = session.get_one(Job, job_id)
        if job.status == "queued":
            lease.claim(session, job_id, "worker", 30)
            session.refresh(job)
        nursery._record(session, job, ending, code, 1_000_000_000)
    with nursery.database.read() as session:
        return session.get_one(Job, job_id)


@pytest.mark.parametrize("ending", [Ending.TOO_LARGE, Ending.MACHINE_FULL])
def test_a_child_killed_for_its_memory_is_not_tried_again(running: tuple[Nursery, str], ending: Ending) -> None:
    job = ended(running, ending, -signal.SIGKILL)
    assert (job.status, job.attempt, (job.error or {})["code"]) == ("failed", 1, "out_of_memory")
    assert "CTP_TRAIN_MEMORY_BYTES" in (job.error or {})["detail"]


def test_a_child_killed_from_outside_is_tried_once_more(running: tuple[Nursery, str]) -> None:
    assert ended(running, Ending.GONE, -signal.SIGKILL).status == "queued"
    job = ended(running, Ending.GONE, -signal.SIGKILL)
    assert (job.status, (job.error or {})["code"]) == ("failed", "worker_lost")
    assert "killed from outside" in (job.error or {})["detail"]


def test_a_child_that_crashes_by_itself_is_tried_as_often_as_set(running: tuple[Nursery, str]) -> None:
    for _ in range(2):
        assert ended(running, Ending.GONE, -signal.SIGSEGV).status == "queued"
    assert ended(running, Ending.HUNG, -signal.SIGKILL).status == "failed"
