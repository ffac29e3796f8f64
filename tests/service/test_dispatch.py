"""Turns of the dispatcher in which one of its steps goes wrong."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.db.engine import Database
from service.db.migrate import migrate
from service.db.tables import Job, Outbox
from service.dispatch import Dispatcher
from service.files import removals
from service.files.store_owner import adopt
from service.kbs import service as kbs
from service.local.cluster import wait_for
from service.settings import Settings
from service.training import lease, service
from service.training.lease import Witness
from service.training.schemas import TrainRequest
from tests.built_kbs import built
from tests.stores import files_of

TENANT = "default"


@pytest.fixture
def dispatcher(tmp_path: Path) -> Iterator[Dispatcher]:
    """With a KB to train on; its Redis is away."""
    times = {"lease_seconds": 0.3, "heartbeat_seconds": 0.1, "reconcile_seconds": 0.01, "relay_seconds": 0.01}
    made = Dispatcher(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1", **times))
    migrate(made.database.engine)
    adopt(made.database, made.storage)
    kbs.create(made.database, files_of(made.database), TENANT, "small", built([("a", "p", "b")]))
    yield made
    made.database.dispose()


def submit(dispatcher: Dispatcher) -> Job:
    with dispatcher.database.write() as session:
        return service.submit(session, TENANT, TrainRequest(kb="small"), dispatcher.settings)[0]


@pytest.mark.slow
def test_files_are_removed_although_no_job_can_be_published(dispatcher: Dispatcher, tmp_path: Path) -> None:
    submit(dispatcher)
    folder = tmp_path / "artifacts" / "models" / "1"
    folder.mkdir(parents=True)
    with dispatcher.database.write() as session:
        removals.remove_later(session, "models/1")
    dispatcher.turn()
    wait_for(lambda: not folder.exists(), "the files are gone", 30)
    with dispatcher.database.read() as session:
        assert session.scalar(select(func.count()).select_from(Outbox)) == 1, "the job waits for Redis"


@pytest.mark.slow
def test_a_step_that_breaks_keeps_no_job_from_being_taken_back(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(dispatcher)
    with dispatcher.database.write() as session:
        lease.claim(session, job.id, "worker", -1.0)
    monkeypatch.setattr(dispatcher.celery, "send_task", None)  # a fault of our own in every relay
    with running(dispatcher):
        wait_for(lambda: status(dispatcher, job) == "queued", "the job is taken back")
    with dispatcher.database.read() as session:
        taken = session.get_one(Job, job.id)
    assert (taken.worker, taken.lease_expires_at) == (None, None), "nobody holds it any more"


def test_right_after_its_start_a_dispatcher_takes_no_job_for_lost(dispatcher: Dispatcher) -> None:
    job = submit(dispatcher)
    with dispatcher.database.write() as session:
        lease.claim(session, job.id, "worker", -1.0)
    dispatcher.take_back()
    assert status(dispatcher, job) == "running", "its worker may have been without the database for as long as we"


def test_a_break_is_seen_and_a_time_without_one_is_not(dispatcher: Dispatcher) -> None:
    witness = Witness(dispatcher.database, 0.02, 2.0)
    began = time.monotonic()
    wait_for(lambda: witness.has_seen(0.5), "half a second without a break", 30)
    assert time.monotonic() - began >= 0.4
    witness.gap = 0.1
    time.sleep(0.2)  # what an outage is to it
    assert not witness.has_seen(0.1)


class Delayed(Database):
    """The first writer hears of its commit late, after the second if that does not wait for it."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.first, self.second = threading.Event(), threading.Event()

    @contextmanager
    def write(self) -> Iterator[Session]:
        is_first = not self.first.is_set()
        with super().write() as session:
            yield session
        self.first.set()
        if is_first:
            self.second.wait(0.5)


def test_two_threads_that_write_at_the_same_time_are_not_a_break(dispatcher: Dispatcher) -> None:
    database = Delayed(str(dispatcher.database.engine.url))
    witness = Witness(database, 1.0, float("inf"))  # the only break that it knows is a time that goes back
    watching = threading.Thread(target=witness.write)
    watching.start()
    assert database.first.wait(30)
    seen = witness.write()
    database.second.set()
    watching.join()
    assert witness.has_seen(seen)
    database.dispose()


def test_a_time_in_which_nobody_could_write_is_a_break(dispatcher: Dispatcher) -> None:
    """A worker whose lease ran out because somebody else held the database has not crashed."""
    witness, stop = Witness(dispatcher.database, 0.05, 0.5), threading.Event()
    watching = threading.Thread(target=witness.watch, args=(stop,))
    watching.start()
    try:
        wait_for(lambda: witness.has_seen(0.3), "a time without a break", 30)
        with dispatcher.database.write() as session:
            session.execute(select(1))
            time.sleep(1.0)
            stop.set()
        watching.join()
        assert not witness.has_seen(witness.gap), "whoever is slow here makes a break of his own"
    finally:
        stop.set()
        watching.join()


def status(dispatcher: Dispatcher, job: Job) -> str:
    with dispatcher.database.read() as session:
        return session.get_one(Job, job.id).status


@contextmanager
def running(dispatcher: Dispatcher) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=dispatcher.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
