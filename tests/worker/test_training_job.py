"""A job that meets a fault in its own process."""

import threading
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from ctp_core.datasets.builder import FactsBuilder, KbLimits
from service.db.migrate import migrate
from service.db.tables import Job, ModelVersion
from service.kbs import service as kbs
from service.settings import Settings
from service.training import service
from service.training.schemas import TrainRequest
from worker.training_job import TrainingJob

TENANT = "default"


def test_a_worker_that_must_stop_while_the_database_is_away_fails_no_job(tmp_path: Path) -> None:
    """What a rolling upgrade of both does: nothing is wrong with the job, and another worker goes on with it."""
    settings, stop = Settings(data_dir=tmp_path, device="cpu", threads=1), threading.Event()
    training = TrainingJob(settings, stop)
    migrate(training.database.engine)
    builder = FactsBuilder(KbLimits())
    builder.add(
        "train", [(i, f"a{i}", predicate, f"a{i + 1}") for i in range(1, 12) for predicate in "pq"], "facts.tsv"
    )
    kbs.create(training.database, TENANT, "small", builder.build())
    with training.database.write() as session:
        job, model = service.submit(session, TENANT, TrainRequest(kb="small"), settings)

    @event.listens_for(training.database.engine, "before_cursor_execute")
    def fall_away(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("INSERT INTO metrics") and not stop.is_set():
            stop.set()
            raise OperationalError(statement, None, Exception("the server was stopped"))

    training.run(job.id)
    assert stop.is_set()
    with training.database.read() as session:
        assert session.get_one(Job, job.id).status == "queued"
        assert session.get_one(ModelVersion, model.id).status == "pending"
    training.database.dispose()
