"""The database's clock is set by an hour, back or forward: nothing that has a time waits for that hour, or is lost."""

import io
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select, text

from service import leadership
from service.db.engine import Database
from service.db.tables import Job, ModelVersion, Removal, TrainWorker
from service.errors import Unavailable
from service.files import removals
from service.kbs import service as kbs
from service.kbs import store
from service.models.transfer import Import
from service.settings import Settings
from service.training import capacity, lease, repository, service
from service.training.lease import Witness
from service.training.schemas import TrainRequest
from tests.built_kbs import built
from tests.service.test_archives import archive
from tests.stores import files_of, folder_store

TENANT, LEASE, HOUR = "default", 30.0, 3600.0


class Clock:
    """The clock of a database, by which `service.db.clock.now` reads the time."""

    ahead: float


@dataclass
class SqliteClock(Clock):
    ahead: float = 0.0

    def julianday(self, moment: str) -> float:
        with sqlite3.connect(":memory:") as plain:
            found: float = plain.execute("SELECT julianday(?)", (moment,)).fetchone()[0]
        plain.close()
        return found + self.ahead / 86400.0

    def install(self, connection: Any, _: object = None) -> None:
        connection.create_function("julianday", 1, self.julianday)


# Found before the one of PostgreSQL itself, since the schema comes before the system's.
POSTGRES_CLOCK = """
CREATE TABLE ahead (seconds double precision);
INSERT INTO ahead VALUES (0);
CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
    'SELECT pg_catalog.clock_timestamp() + seconds * interval ''1 second'' FROM public.ahead';
"""


class PostgresClock(Clock):
    def __init__(self, database: Database) -> None:
        self.engine = database.engine
        with self.engine.begin() as connection:
            connection.execute(text(POSTGRES_CLOCK))
            connection.execute(text(f"ALTER DATABASE {self.engine.url.database} SET search_path = public, pg_catalog"))
        database.dispose()  # those that are open have the old one

    @property
    def ahead(self) -> float:  # type: ignore[override]
        with self.engine.connect() as connection:
            return float(connection.scalars(text("SELECT seconds FROM ahead")).one())

    @ahead.setter
    def ahead(self, seconds: float) -> None:
        with self.engine.begin() as connection:
            connection.execute(text("UPDATE ahead SET seconds = :seconds"), {"seconds": seconds})


def sqlite_clock(database: Database) -> Clock:
    made = SqliteClock()
    event.listen(database.engine, "connect", made.install)
    database.dispose()
    return made


@pytest.fixture
def clock(either_database: Database) -> Clock:
    is_sqlite = either_database.engine.dialect.name == "sqlite"
    return sqlite_clock(either_database) if is_sqlite else PostgresClock(either_database)


@pytest.fixture
def database(either_database: Database, clock: Clock) -> Database:
    kbs.create(either_database, files_of(either_database), TENANT, "small", built([("a", "p", "b")]))
    return either_database


def running(database: Database) -> Job:
    with database.write() as session:
        job = service.submit(session, TENANT, TrainRequest(kb="small"), Settings())[0]
        lease.claim(session, job.id, "worker", LEASE)
    return job


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_set_clock_is_a_break_for_the_witness_and_no_more(database: Database, clock: Clock, jump: float) -> None:
    witness = Witness(database, 1.0, 4.0)
    witness.write()
    clock.ahead += 2.0
    assert witness.has_seen(2.0)
    clock.ahead += jump
    assert not witness.has_seen(2.0), "workers have leases by the old clock, and a lease's time to renew them"
    clock.ahead += 2.0
    assert witness.has_seen(2.0)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_the_job_of_a_lost_worker_is_taken_back_whatever_the_clock_says(
    database: Database, clock: Clock, jump: float
) -> None:
    job = running(database)
    clock.ahead = jump
    with database.write() as session:
        (silent,) = lease.expired(session, LEASE)
        lease.take_back(session, silent, LEASE, 3)
    with database.read() as session:
        assert session.get_one(Job, job.id).status == "queued"


def test_a_worker_that_renews_by_the_new_clock_keeps_its_job(database: Database, clock: Clock) -> None:
    job = running(database)
    clock.ahead = -HOUR
    with database.write() as session:
        lease.renew(session, repository.Claim(job.id, 1), LEASE)
    with database.read() as session:
        assert lease.expired(session, LEASE) == []


@pytest.mark.slow
def test_a_clock_that_is_corrected_by_seconds_takes_no_job(database: Database, clock: Clock) -> None:
    running(database)
    clock.ahead = -LEASE / 2
    with database.read() as session:
        assert lease.expired(session, LEASE) == []


def test_the_lead_of_a_dispatcher_that_is_gone_is_taken(database: Database, clock: Clock) -> None:
    with database.write() as session:
        assert leadership.take(session, "dispatcher", "gone", 15.0)
    clock.ahead = -HOUR
    with database.write() as session:
        assert leadership.take(session, "dispatcher", "new", 15.0)
        assert not leadership.take(session, "dispatcher", "gone", 15.0)


def test_a_job_that_is_missing_from_the_queue_is_found(database: Database, clock: Clock) -> None:
    with database.write() as session:
        job = service.submit(session, TENANT, TrainRequest(kb="small"), Settings())[0]
        for entry in repository.unpublished(session, 10):
            repository.mark_published(session, entry)
    with database.read() as session:
        assert repository.forgotten(session, 10.0) == []
    clock.ahead = -HOUR
    with database.read() as session:
        assert [found.id for found in repository.forgotten(session, 10.0)] == [job.id]


def test_a_load_that_was_broken_off_is_swept(database: Database, clock: Clock) -> None:
    load = store.Load.start(database, files_of(database), TENANT, "half", kbs._stored_facts(built([("a", "p", "c")])))
    assert store.sweep(database) == 0
    clock.ahead = -HOUR
    assert store.sweep(database) == 1
    assert load.created


def test_a_train_worker_that_is_gone_is_forgotten(database: Database, clock: Clock) -> None:
    with database.write() as session:
        capacity.report(session, "gone", 1, 1.0)
    clock.ahead = -HOUR
    with database.write() as session:
        capacity.report(session, "there", 1, 1.0)
        assert session.scalars(select(TrainWorker.name)).all() == ["there"]


def test_an_import_whose_files_were_removed_meanwhile_is_not_registered(
    database: Database, clock: Clock, tmp_path: Path
) -> None:
    found = Import(io.BytesIO(archive()), None, Settings(data_dir=tmp_path))
    found.store(database, folder_store(tmp_path / "artifacts"))
    found.stage(database)
    clock.ahead = HOUR + 1
    with database.write() as session:
        (due,) = removals.due(session, 10)
        removals.done(session, due)
    with pytest.raises(Unavailable, match="send it again"), database.write() as session:
        found.register(session, TENANT)
    with database.read() as session:
        assert session.get_one(ModelVersion, found.model_id).status == "pending"
        assert session.scalars(select(Removal)).all() == []
