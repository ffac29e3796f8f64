"""A job that meets a fault in its own process."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from sqlalchemy import event, select
from sqlalchemy.exc import OperationalError

from service.db.migrate import migrate
from service.db.tables import Job, ModelVersion, RuleRow
from service.files.store_owner import adopt
from service.kbs import service as kbs
from service.local.cluster import wait_for
from service.settings import Settings
from service.training import service
from service.training.schemas import TrainRequest
from tests.built_kbs import built
from tests.stores import files_of
from worker.training_job import TrainingJob

TENANT = "default"


@pytest.fixture
def training(tmp_path: Path) -> Iterator[TrainingJob]:
    """With a small KB in its database."""
    made = TrainingJob(Settings(data_dir=tmp_path, device="cpu", threads=1), threading.Event())
    migrate(made.database.engine)
    adopt(made.database, made.storage)
    facts = [(f"a{i}", predicate, f"a{i + 1}") for i in range(1, 12) for predicate in "pq"]
    kbs.create(made.database, files_of(made.database), TENANT, "small", built(facts))
    yield made
    made.database.dispose()


def run(training: TrainingJob) -> tuple[Job, ModelVersion]:
    """The job and its model after a worker has had it."""
    with training.database.write() as session:
        job, model = service.submit(session, TENANT, TrainRequest(kb="small"), training.settings)
    training.run(job.id)
    with training.database.read() as session:
        return session.get_one(Job, job.id), session.get_one(ModelVersion, model.id)


def test_a_worker_that_must_stop_while_the_database_is_away_fails_no_job(training: TrainingJob) -> None:
    """What a rolling upgrade of both does: nothing is wrong with the job, and another worker goes on with it."""

    @event.listens_for(training.database.engine, "before_cursor_execute")
    def fall_away(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("INSERT INTO metrics") and not training.stop.is_set():
            training.stop.set()
            raise OperationalError(statement, None, Exception("the server was stopped"))

    job, model = run(training)
    assert training.stop.is_set()
    assert (job.status, model.status) == ("queued", "pending")


@pytest.mark.slow
def test_a_training_that_goes_on_after_a_cancel_is_known_to_cling(
    training: TrainingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    clung = []

    def hang(_: int) -> None:
        with training.database.read() as session:
            job_id = session.scalars(select(Job.id)).one()
        clung.append(training.clings)
        service.cancel(training.database, TENANT, job_id, 1.0)
        wait_for(lambda: training.clings, "the heart knows", 30)

    monkeypatch.setattr("worker.training_job.limit_threads", hang)
    job, _ = run(training)
    assert (job.status, clung, training.clings) == ("cancelled", [False], False)


@pytest.mark.slow
def test_a_model_keeps_no_more_rules_than_an_archive_may_hold_the_best_first(
    training: TrainingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept() -> list[str]:
        _, model = run(training)
        with training.database.read() as session:
            statement = select(RuleRow.text).where(RuleRow.model_id == model.id).order_by(RuleRow.position)
            return list(session.scalars(statement))

    everything = kept()
    monkeypatch.setattr("worker.training_job.MAX_RULES", 2)
    monkeypatch.setattr("worker.training_job.log", structlog.get_logger())  # one that was used before is not captured
    with structlog.testing.capture_logs() as lines:
        best = kept()
    assert len(everything) > len(best) == 2
    assert best == [next(rule for rule in everything if rule.startswith(head)) for head in ("q(", "p(")]
    assert {"event": "rules_cut", "found": len(everything), "kept": 2}.items() <= next(
        line for line in lines if line["event"] == "rules_cut"
    ).items()


def test_a_job_of_another_service_is_told_as_such(training: TrainingJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.job.log", structlog.get_logger())  # one that was used before is not captured
    with structlog.testing.capture_logs() as lines:
        training.run("job_of_somebody_else")
    assert ("error", "job_unknown") in {(line["log_level"], line["event"]) for line in lines}


def test_a_fault_of_our_own_fails_the_job_and_its_trace_is_for_the_log_alone(training: TrainingJob) -> None:
    @event.listens_for(training.database.engine, "before_cursor_execute")
    def break_down(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("INSERT INTO metrics"):
            raise ZeroDivisionError("nobody thought of this")

    job, model = run(training)
    assert (job.status, model.status) == ("failed", "failed")
    assert job.error is not None
    assert job.error == {"code": "training_crashed", "detail": "ZeroDivisionError: nobody thought of this"}


def test_a_number_that_overflows_fails_the_job_with_what_to_change(training: TrainingJob) -> None:
    @event.listens_for(training.database.engine, "before_cursor_execute")
    def overflow(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("INSERT INTO metrics"):
            raise OverflowError("math range error")

    job, _ = run(training)
    assert job.error is not None
    assert job.error["code"] == "training_overflowed"
    assert "math range error): lower `learning_rate`" in job.error["detail"]
