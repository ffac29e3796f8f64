"""Predictions in bulk in the process that does them."""

import csv
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pytest
from sqlalchemy import delete, select, update

from ctp_core.predict import Predictor
from service.db.migrate import migrate
from service.db.tables import Job, PredictionFile, Removal
from service.errors import Conflict, Invalid, NotFound
from service.files.garbage import find_garbage
from service.files.store_owner import adopt
from service.kbs import service as kbs
from service.predictions import repository, service
from service.predictions.schemas import PredictionOut, PredictionRequest
from service.settings import Settings
from service.training import outcomes
from service.training import service as training
from service.training.schemas import TrainRequest
from tests.built_kbs import built
from worker.batch_job import BatchJob
from worker.prediction_job import Predicting as PredictionRunner
from worker.training_job import TrainingJob

TENANT = "default"
# q follows from p for most, so that rules predict the rest.
FACTS = [(f"a{i}", "p", f"a{i + 1}") for i in range(30)]
FACTS += [(f"a{i}", "q", f"a{i + 1}") for i in range(30) if i % 5]
CSV_HEADER = ("subject", "predicate", "object", "score", "probability", "rank", "known", "asked")
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """With a model of rules in its database, and another KB."""
    made = TrainingJob(Settings(data_dir=tmp_path_factory.mktemp("data"), device="cpu", threads=1))
    migrate(made.database.engine)
    adopt(made.database, made.storage)
    kbs.create(made.database, made.files, TENANT, "small", built(FACTS))
    kbs.create(made.database, made.files, TENANT, "other", built([(f"b{i}", "p", f"b{i + 1}") for i in range(3)]))
    with made.database.write() as session:
        request = TrainRequest(kb="small", name="m", config={"method": "rules", "search": []})
        job, _ = training.submit(session, TENANT, request, made.settings)
    made.run(job.id)
    made.database.dispose()
    return made.settings


@dataclass
class Predicting:
    """A worker of predictions, and what users see of them."""

    runner: BatchJob

    def submit(self, **body: Any) -> Job:
        request = PredictionRequest(**{"model": "m", "predicate": "q", "format": "jsonl", "min_score": 0.0} | body)
        service.check(self.runner.database, self.runner.files, TENANT, request)
        with self.runner.database.write() as session:
            return service.submit(session, TENANT, request, self.runner.settings)

    def run(self, job: Job) -> PredictionOut:
        self.runner.run(job.id)
        return self.look_up(job)

    def look_up(self, job: Job) -> PredictionOut:
        with self.runner.database.read() as session:
            return service.look_up(session, TENANT, job.id, self.runner.settings)

    def predict(self, **body: Any) -> tuple[PredictionOut, bytes]:
        found = self.run(self.submit(**body))
        assert found.error is None
        return found, self.content(found.id)

    def content(self, prediction_id: str) -> bytes:
        begun = service.download(self.runner.database, self.runner.storage, TENANT, prediction_id)
        content = b"".join(begun.content)
        assert len(content) == begun.num_bytes
        return content

    def parts(self, job: Job) -> list[PredictionFile]:
        with self.runner.database.read() as session:
            return list(repository.files(session, job.id))


@pytest.fixture
def predicting(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Predicting]:
    monkeypatch.setattr("ctp_core.predict.MOST_AT_ONCE", 4)
    made = Predicting(BatchJob(settings, threading.Event()))
    yield made
    with made.runner.database.write() as session:
        session.execute(update(Job).where(Job.status.in_(["queued", "running"])).values(status="cancelled"))
    made.runner.database.dispose()


def lines(content: bytes) -> Rows:
    return [json.loads(line) for line in content.splitlines()]


def with_settings(predicting: Predicting, **values: Any) -> Predicting:
    return Predicting(BatchJob(predicting.runner.settings.model_copy(update=values), threading.Event()))


def test_a_prediction_ends_with_its_rows_in_every_format(predicting: Predicting, tmp_path: Any) -> None:
    found, content = predicting.predict(proofs=1)
    rows = lines(content)
    assert (found.num_rows, found.truncated, found.stopped_by) == (len(rows), False, None)
    assert found.num_questions == 30, "one for each entity that may be a subject of q: those of p"
    assert found.num_bytes == len(content)
    assert found.progress["text"] == "done"
    assert list(rows[0]) == [*CSV_HEADER, "proof", "proof_facts"]
    assert all(row["predicate"] == "q" and not row["known"] for row in rows)
    texts = list(csv.DictReader(io.StringIO(predicting.predict(proofs=1, format="csv")[1].decode())))
    assert [(row["subject"], row["object"], float(row["score"]), row["known"]) for row in texts] == [
        (row["subject"], row["object"], row["score"], "false") for row in rows
    ]
    assert [json.loads(row["proof_facts"]) for row in texts] == [row["proof_facts"] for row in rows]
    file = tmp_path / "rows.parquet"
    file.write_bytes(predicting.predict(proofs=1, format="parquet")[1])
    table = duckdb.read_parquet(str(file))
    typed = [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]
    assert typed == rows, "of the same types and to the last bit"


def test_a_missing_fact_is_found_with_its_proof(predicting: Predicting) -> None:
    _, content = predicting.predict(subjects=["a5", "a10"], proofs=1, top_k_per_question=1, min_score=0)
    rows = lines(content)
    assert [(row["subject"], row["object"], row["rank"]) for row in rows] == [("a5", "a6", 1), ("a10", "a11", 1)]
    assert rows[0]["proof"].startswith("q(a5, a6) ⇐ ")
    assert ["a5", "p", "a6"] in rows[0]["proof_facts"]


@pytest.mark.parametrize("file_format", ["jsonl", "csv", "parquet"])
def test_nothing_found_is_a_file_without_rows(predicting: Predicting, file_format: str, tmp_path: Any) -> None:
    found, content = predicting.predict(min_score=1, format=file_format)
    assert (found.status, found.num_rows) == ("succeeded", 0)
    if file_format == "parquet":
        file = tmp_path / "rows.parquet"
        file.write_bytes(content)
        assert duckdb.read_parquet(str(file)).fetchall() == []
    else:
        assert content.decode() == ("" if file_format == "jsonl" else ",".join(CSV_HEADER) + "\r\n")


@pytest.mark.parametrize("file_format", ["jsonl", "csv", "parquet"])
def test_a_lost_attempt_is_gone_on_with_after_its_last_part(
    predicting: Predicting, monkeypatch: pytest.MonkeyPatch, file_format: str
) -> None:
    """Stops before every part in turn: whatever was stored is neither asked again nor lost."""
    whole = predicting.predict(format=file_format, proofs=1)[1]
    monkeypatch.setattr("worker.prediction_job.PART_ROWS", 1)
    job = predicting.submit(format=file_format, proofs=1)
    asked: list[int] = []
    batches = Predictor.batches

    def one_batch(self: Predictor, first: int = 0) -> Iterator[Any]:
        asked.append(first)
        yield next(iter(batches(self, first)))
        predicting.runner.stop.set()
        yield 0, []

    with monkeypatch.context() as stopping:
        stopping.setattr(Predictor, "batches", one_batch)
        for _ in range(3):
            predicting.runner.stop.clear()
            assert predicting.run(job).status == "queued"
    assert asked == [0, 4, 8]
    assert [part.next_step for part in predicting.parts(job)][-1] == 12
    predicting.runner.stop.clear()
    found = predicting.run(job)
    assert (found.status, found.attempt, found.num_questions) == ("succeeded", 4, 30)
    assert predicting.content(job.id) == whole
    assert [part.number for part in predicting.parts(job)] == list(range(len(predicting.parts(job))))


def test_a_part_whose_commit_was_not_heard_of_is_written_again_without_harm(
    predicting: Predicting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.prediction_job.PART_ROWS", 1)
    add = PredictionRunner.add_part

    def twice(self: PredictionRunner, *part: Any) -> None:
        add(self, *part)
        add(self, *part)

    whole = predicting.predict(format="csv")[1]
    with monkeypatch.context() as unheard:
        unheard.setattr(PredictionRunner, "add_part", twice)
        found, content = predicting.predict(format="csv")
    assert (found.status, content) == ("succeeded", whole)


def test_parquet_takes_the_place_of_its_parts(predicting: Predicting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.prediction_job.PART_ROWS", 1)
    monkeypatch.setattr("worker.prediction_job.FILE_BYTES", 500)
    stored: list[str] = []
    add_part = repository.add_part
    monkeypatch.setattr(repository, "add_part", lambda *a: (stored.append(a[2].artifact), add_part(*a)))
    found, content = predicting.predict(format="parquet")
    assert content[:4] == content[-4:] == b"PAR1"
    with predicting.runner.database.read() as session:
        removed = set(session.scalars(select(Removal.owner)))
        (job,) = session.scalars(select(Job).where(Job.id == found.id))
    assert len(stored) > 1
    assert set(stored) <= removed
    assert len(predicting.parts(job)) == -(-len(content) // 500)


def test_more_rows_than_may_be_end_it_early_and_say_so(predicting: Predicting) -> None:
    whole = predicting.predict(min_score=0)[1]
    few = with_settings(predicting, max_prediction_rows=7)
    found, content = few.predict(min_score=0)
    assert (found.num_rows, found.truncated, found.stopped_by) == (7, True, "CTP_MAX_PREDICTION_ROWS")
    assert lines(content) == lines(whole)[:7]
    exactly = with_settings(predicting, max_prediction_rows=len(lines(whole)))
    assert exactly.predict(min_score=0)[0].truncated is False, "as many as may be is not too many"
    for one in (few, exactly):
        one.runner.database.dispose()


def test_too_much_time_ends_it_early_and_says_so(predicting: Predicting) -> None:
    hurried = with_settings(predicting, prediction_seconds=1e-9)
    found, content = hurried.predict()
    assert (found.num_questions, found.truncated, found.stopped_by) == (4, True, "CTP_PREDICTION_SECONDS")
    assert content == predicting.predict()[1][: len(content)]
    hurried.runner.database.dispose()


def test_a_model_predicts_on_another_kb(predicting: Predicting) -> None:
    found, content = predicting.predict(kb="other", subjects=["b0"], top_k_per_question=1, min_score=0)
    assert found.kb == "other"
    assert [(row["subject"], row["object"]) for row in lines(content)] == [("b0", "b1")]


def test_what_cannot_be_predicted_is_refused_at_once(predicting: Predicting) -> None:
    for wrong in ({"predicate": "qq"}, {"subjects": ["a1", "nobody"]}, {"objects": ["nobody"]}):
        with pytest.raises(Invalid, match="there is no") as raised:
            predicting.submit(**wrong)
        assert raised.value.code == "unknown_symbol"


def test_rows_are_removed_after_their_days_and_then_said_to_be(predicting: Predicting) -> None:
    found, _ = predicting.predict()
    database, settings = predicting.runner.database, predicting.runner.settings
    assert found.expires_at is not None
    assert found.finished_at is not None
    assert (found.expires_at - found.finished_at).days == 7
    service.expire(database, settings)
    predicting.content(found.id)
    with database.write() as session:
        old = Job.finished_at - 8 * 86400
        session.execute(update(Job).where(Job.id == found.id).values(finished_at=old))
    service.expire(database, settings)
    with pytest.raises(Conflict) as raised:
        predicting.content(found.id)
    assert raised.value.code == "prediction_expired"
    with database.read() as session:
        assert outcomes.prediction_owner(found.id) in set(session.scalars(select(Removal.owner)))


def test_a_deleted_or_cancelled_prediction_leaves_no_files(predicting: Predicting) -> None:
    found, _ = predicting.predict()
    database = predicting.runner.database
    with database.write() as session:
        service.delete(session, TENANT, found.id)
    with pytest.raises(NotFound), database.read() as session:
        service.get(session, TENANT, found.id)
    job = predicting.submit()
    with pytest.raises(Conflict) as raised, database.write() as session:
        service.delete(session, TENANT, job.id)
    assert raised.value.code == "prediction_active"
    with pytest.raises(Conflict) as raised:
        predicting.content(job.id)
    assert raised.value.code == "prediction_not_ready"
    training.cancel(database, TENANT, job.id, 0.0)
    with database.read() as session:
        owners = set(session.scalars(select(Removal.owner)))
    assert {outcomes.prediction_owner(one) for one in (found.id, job.id)} <= owners


def test_files_of_predictions_are_not_garbage(predicting: Predicting) -> None:
    found, _ = predicting.predict()
    runner = predicting.runner
    assert not any(found.id in entry.key for entry in find_garbage(runner.database, runner.storage, -60).orphans)
    with runner.database.write() as session:
        session.execute(delete(PredictionFile).where(PredictionFile.job_id == found.id))
    assert any(found.id in entry.key for entry in find_garbage(runner.database, runner.storage, -60).orphans)
