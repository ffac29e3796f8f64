"""Forecasts of trainings, the memory of train workers, and trainings that fit none of them."""

from typing import Any

import pytest
from sqlalchemy import func, select, update

from ctp_core.base.cost import Forecast
from service.db.clock import now
from service.db.engine import Database
from service.db.tables import Job, Kb, TrainWorker
from service.errors import Invalid
from service.kbs import service as kbs
from service.settings import Settings
from service.training import capacity, service
from service.training.schemas import TrainRequest
from tests.built_kbs import built
from tests.stores import files_of

TENANT = "default"
FACTS = [(f"e{i}", f"p{i % 3}", f"e{i + 1}") for i in range(30)]


@pytest.fixture
def database(either_database: Database) -> Database:
    kbs.create(either_database, files_of(either_database), TENANT, "small", built(FACTS))
    return either_database


def submit(database: Database, **body: Any) -> Job:
    with database.write() as session:
        request = TrainRequest(kb="small", **body)
        return service.submit(session, TENANT, request, Settings())[0]


def report(database: Database, name: str, memory_bytes: int | None, speed: float = 1.0) -> None:
    with database.write() as session:
        capacity.report(session, name, memory_bytes, speed)


def test_a_job_tells_what_it_is_expected_to_cost(database: Database) -> None:
    job = submit(database, config={"method": "complex"})
    assert job.forecast is not None
    assert job.forecast["peak_bytes"] > 100_000_000
    assert job.forecast["cpu_seconds"] > 0
    assert "epochs" in job.forecast["basis"]


def test_several_seeds_cost_the_seconds_of_all_and_the_memory_of_one(database: Database) -> None:
    one, three = submit(database, seeds=[0]).forecast, submit(database, seeds=[0, 1, 2]).forecast
    assert one is not None
    assert three is not None
    assert three["cpu_seconds"] == pytest.approx(3 * one["cpu_seconds"], rel=0.1)
    assert three["peak_bytes"] == one["peak_bytes"]


def test_without_a_known_worker_every_training_is_accepted(database: Database) -> None:
    assert submit(database, config={"method": "complex", "rank": 4096}).status == "queued"


def test_a_training_that_fits_no_worker_is_refused_with_what_to_change(database: Database) -> None:
    report(database, "one:1", 90_000_000)
    report(database, "two:2", 100_000_000)
    with pytest.raises(Invalid) as refused:
        submit(database, config={"method": "neurallp"})
    problem = refused.value.problem()
    assert (problem["status"], problem["code"], problem["limit_bytes"]) == (422, "too_little_memory", 100_000_000)
    assert problem["forecast"]["peak_bytes"] > 100_000_000
    assert problem["setting"] == "CTP_TRAIN_MEMORY_BYTES"
    assert "`batch_size`" in problem["detail"]
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 0


def test_a_training_that_fits_one_worker_is_accepted(database: Database) -> None:
    report(database, "one:1", 100_000_000)
    report(database, "two:2", 64_000_000_000)
    assert submit(database).status == "queued"


def test_a_worker_that_does_not_know_its_memory_may_have_enough(database: Database) -> None:
    report(database, "one:1", 100_000_000)
    report(database, "two:2", None)
    assert submit(database).status == "queued"


def test_a_worker_that_has_left_or_been_silent_for_long_does_not_count(database: Database) -> None:
    report(database, "one:1", 100_000_000)
    report(database, "two:2", 100_000_000)
    with database.write() as session:
        capacity.leave(session, "one:1")
        session.execute(update(TrainWorker).values(seen_at=now() - 2 * capacity.SILENT_SECONDS))
    assert submit(database).status == "queued"
    report(database, "three:3", None)
    with database.read() as session:
        assert session.scalars(select(TrainWorker.name)).all() == ["three:3"]


def test_measured_speed_scales_the_seconds_that_are_shown_and_nothing_else() -> None:
    expected = Forecast(10.0, 500, "3 epochs")
    slow = capacity.scaled(expected, 0.5)
    assert (slow.cpu_seconds, slow.peak_bytes) == (20.0, 500)
    assert slow.basis.startswith("3 epochs; ")
    assert "speed" in slow.basis
    assert capacity.scaled(expected, None) == expected


def test_a_kb_of_an_older_version_is_counted_when_its_statistics_are_needed(database: Database) -> None:
    with database.write() as session:
        new = kbs.get(session, TENANT, "small").statistics
        session.execute(update(Kb).values(statistics=None))
    with database.read() as session:
        assert kbs.profile_of(kbs.get(session, TENANT, "small")).num_paths is None
    kbs.count(database, files_of(database), TENANT, "small")
    with database.read() as session:
        counted = kbs.get(session, TENANT, "small")
        assert counted.statistics == new
        assert kbs.profile_of(counted).num_paths == 29 * 2**2 + 2
