"""How jobs are accepted, claimed, fenced and ended, on a database of its own."""

from pathlib import Path

import pytest
from sqlalchemy import select, update

from service.db.clock import now
from service.db.engine import Database
from service.db.tables import Checkpoint, IdempotencyKey, Job, Metric, ModelVersion, Outbox, Removal
from service.errors import Conflict, Invalid, TooMany
from service.files.garbage import find_garbage
from service.http.idempotency import KEPT_SECONDS, CreationReply, Once
from service.kbs import service as kbs
from service.models import service as models
from service.settings import Settings
from service.training import lease, outcomes, repository, service
from service.training.outcomes import Trained
from service.training.repository import Claim, LeaseLost
from service.training.retention import keep_checkpoints
from service.training.schemas import TrainRequest
from tests.built_kbs import built
from tests.stores import files_of, folder_store

TENANT = "default"
LEASE = 30.0


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    kbs.create(sqlite_database, files_of(sqlite_database), TENANT, "small", built([("a", "p", "b")]))
    return sqlite_database


def submit(database: Database, seeds: list[int] | None = None, most: int = 100) -> Job:
    request = TrainRequest(kb="small", name="m", config={"method": "proofs"}, seeds=seeds)
    with database.write() as session:
        return service.submit(session, TENANT, request, Settings(max_queued_jobs=most))[0]


def claim(database: Database, job: Job, seconds: float = LEASE) -> Claim:
    with database.write() as session:
        found = lease.claim(session, job.id, "worker", seconds)
    assert found is not None
    return found


def job_of(database: Database, job: Job) -> Job:
    with database.read() as session:
        return session.get_one(Job, job.id)


def finish(database: Database, held: Claim, mrr: float | None = None, staged: str | None = None) -> None:
    with database.write() as session:
        values = {} if mrr is None else {"mrr": mrr}
        session.add(Metric(job_id=held.job_id, epoch=1, attempt=held.attempt, loss=1.0, values=values))
        outcomes.succeed(session, held, Trained(f"models/x/{held.job_id}", 1, staged))


def model_of(database: Database, job: Job) -> ModelVersion:
    with database.read() as session:
        return session.get_one(ModelVersion, job.model_id)


def test_a_job_is_claimed_once(database: Database) -> None:
    job = submit(database)
    assert claim(database, job).attempt == 1
    with database.write() as session:
        assert lease.claim(session, job.id, "other", LEASE) is None


def test_an_old_attempt_writes_nothing(database: Database) -> None:
    job = submit(database)
    old = claim(database, job, seconds=-1)
    with database.write() as session:
        lease.take_back(session, job_of(database, job), LEASE, 3)
    new = claim(database, job)
    progress = {"epoch": 1, "loss": 0.1, "metrics": {}}
    row = Checkpoint(job_id=job.id, epoch=1, attempt=1, artifact="x", num_bytes=1, metrics={})
    with pytest.raises(LeaseLost), database.write() as session:
        repository.record_epoch(session, old, progress)
    with pytest.raises(LeaseLost), database.write() as session:
        repository.record_checkpoint(session, old, row)
    with pytest.raises(LeaseLost):
        finish(database, old)
    assert (new.attempt, job_of(database, job).status) == (2, "running")
    with database.read() as session:
        assert session.scalars(select(Metric)).all() == []
        assert session.scalars(select(Checkpoint)).all() == []


def test_a_job_whose_worker_spoke_in_time_is_not_taken_back(database: Database) -> None:
    job = submit(database)
    held = claim(database, job, seconds=-1)
    silent = job_of(database, job)
    with database.write() as session:
        repository.write_held(session, held, lease_expires_at=now() + LEASE)
    with pytest.raises(LeaseLost), database.write() as session:
        lease.take_back(session, silent, LEASE, 3)


def test_crashes_count_and_releases_do_not(database: Database) -> None:
    job = submit(database)
    for _ in range(5):
        held = claim(database, job)
        with database.write() as session:
            lease.release(session, held)
    assert job_of(database, job).crashes == 0
    for _ in range(3):
        held = claim(database, job)
        with database.write() as session:
            lease.lost(session, held, 3)
    failed = job_of(database, job)
    assert (failed.status, failed.crashes, failed.attempt) == ("failed", 3, 8)
    assert failed.error is not None
    assert model_of(database, job).status == "failed"
    why = f"model 'm@1' is failed: GET /jobs/{job.id} tells why"
    with database.read() as session, pytest.raises(Conflict, match=why):
        models.ready(session, TENANT, "m@1")


def test_every_waiting_job_is_in_the_outbox(database: Database) -> None:
    jobs = [submit(database), submit(database, seeds=[0, 1])]
    with database.read() as session:
        rung = set(session.scalars(select(Outbox.job_id)))
        children = set(session.scalars(select(Job.id).where(Job.parent_id == jobs[1].id)))
    assert rung == {jobs[0].id} | children


def test_more_jobs_than_may_wait_are_refused_and_leave_nothing(database: Database) -> None:
    submit(database, most=3)
    with pytest.raises(TooMany):
        submit(database, seeds=[0, 1, 2], most=3)
    submit(database, seeds=[0, 1], most=3)
    with database.read() as session:
        assert len(session.scalars(select(ModelVersion)).all()) == 2


def test_a_seed_is_given_in_one_place(database: Database) -> None:
    request = TrainRequest(kb="small", config={"seed": 1}, seeds=[2])
    with pytest.raises(Invalid) as caught, database.write() as session:
        service.submit(session, TENANT, request, Settings())
    assert caught.value.code == "two_seeds"


def test_the_best_seed_is_registered_when_the_last_has_ended(database: Database) -> None:
    parent = submit(database, seeds=[7, 8, 9])
    with database.read() as session:
        children = repository.children(session, [parent])[parent.id]
    for child, mrr in zip(children, (0.2, 0.9, 0.5), strict=True):
        assert model_of(database, parent).status == "pending"
        finish(database, claim(database, child), mrr)
    model = model_of(database, parent)
    assert (model.status, model.trained_by, model.config["seed"]) == ("ready", children[1].id, 8)
    assert (job_of(database, parent).status, model.metrics) == ("succeeded", {"mrr": 0.9})
    with database.read() as session:
        leaving = set(session.scalars(select(Removal.owner)))
    assert f"models/{model.id}/{children[0].id}" in leaving
    assert f"models/{model.id}/{children[1].id}" not in leaving


@pytest.mark.parametrize(
    ("epochs", "kept"),
    [
        ([], {}),
        ([{}, {}], {}),
        ([{"mrr": 0.4, "hits@1": 0.1}, {"mrr": 0.5, "hits@1": 0.2}, {}, {"mrr": 0.3, "hits@1": 0.3}], 1),
        ([{"mrr": 0.5, "hits@1": 0.2}, {"mrr": 0.5, "hits@1": 0.3}], 1),
        ([{"accuracy": 0.9, "loss": 0.4}, {"accuracy": 0.8, "loss": 0.3}, {"accuracy": 0.7, "loss": 0.9}], 1),
        ([{"accuracy": 1.0, "loss": 1.7}, {"accuracy": 1.0, "loss": 0.1}], 1),
        ([{"part_mrr": 0.9}, {"part_mrr": 0.8}], 1),
        ([{"proofs_mrr": 0.9}, {"mrr": 0.2}], 1),
    ],
)
def test_a_model_has_the_metrics_of_the_weights_that_it_keeps(
    epochs: list[dict[str, float]], kept: int | dict[str, float]
) -> None:
    rows = [Metric(job_id="j", epoch=epoch, attempt=1, loss=2.0, values=row) for epoch, row in enumerate(epochs)]
    expected = epochs[kept] if isinstance(kept, int) else kept
    assert outcomes.best_epoch(rows) == (expected, 2.0 if epochs else None)


def test_where_epochs_have_no_loss_the_last_validation_counts() -> None:
    """Each adds to the same model, and those before the last were validated on a sample only."""
    found = [{"mrr": 0.1}, {"mrr": 0.6}, {}, {"mrr": 0.5}]
    rows = [Metric(job_id="j", epoch=epoch, attempt=1, loss=None, values=row) for epoch, row in enumerate(found)]
    assert outcomes.best_epoch(rows) == ({"mrr": 0.5}, None)


def test_the_time_left_of_several_seeds_counts_those_that_wait() -> None:
    running = {"epoch": 5, "epochs": 10, "done": 0.5, "eta_seconds": 20.0, "elapsed_seconds": 20.0}
    ended = {"epoch": 10, "epochs": 10, "done": 1.0, "eta_seconds": 0.0, "elapsed_seconds": 40.0}
    assert service._summed([ended, running, {}])["eta_seconds"] == 60.0
    assert service._summed([running, running, {}])["eta_seconds"] == 60.0
    assert service._summed([ended, running, {}])["done"] == 0.5
    assert service._summed([ended, {}])["eta_seconds"] is None
    assert service._summed([ended, ended])["eta_seconds"] == 0.0


def test_a_cancelled_job_cannot_succeed_any_more(database: Database) -> None:
    job = submit(database)
    held = claim(database, job)
    service.cancel(database, TENANT, job.id, LEASE)
    with pytest.raises(LeaseLost):
        finish(database, held)
    assert (job_of(database, job).status, model_of(database, job).status) == ("cancelled", "cancelled")


def test_a_job_that_has_ended_keeps_its_files_when_it_is_cancelled(database: Database) -> None:
    parent = submit(database, seeds=[0, 1])
    with database.read() as session:
        children = repository.children(session, [parent])[parent.id]
    for child in children:
        finish(database, claim(database, child))
    with database.write() as session:
        before = list(session.scalars(select(Removal.owner)))
        assert not outcomes.cancel(session, parent, LEASE)
    with database.read() as session:
        assert list(session.scalars(select(Removal.owner))) == before
    assert job_of(database, parent).status == "succeeded"


def test_a_seed_that_had_succeeded_leaves_nothing_to_miss_when_its_job_is_cancelled(
    database: Database, tmp_path: Path
) -> None:
    parent = submit(database, seeds=[0, 1])
    with database.read() as session:
        children = repository.children(session, [parent])[parent.id]
    finish(database, claim(database, children[0]))
    service.cancel(database, TENANT, parent.id, LEASE)
    assert job_of(database, parent).status == "cancelled"
    assert find_garbage(database, folder_store(tmp_path / "artifacts")).missing == []


def test_the_best_the_last_and_the_one_before_are_kept_while_a_job_runs(database: Database) -> None:
    job = submit(database)
    with database.write() as session:
        for epoch, mrr in enumerate((0.1, 0.9, 0.3, 0.2, 0.4), 1):
            row = Checkpoint(
                job_id=job.id, epoch=epoch, attempt=1, artifact=f"a{epoch}", num_bytes=1, metrics={"mrr": mrr}
            )
            session.add(row)
    for running, kept in ((True, [5, 4, 2]), (False, [5, 2])):
        with database.write() as session:
            keep_checkpoints(session, job.id, running=running)
        with database.read() as session:
            assert [row.epoch for row in repository.checkpoints(session, job.id)] == kept


def test_an_idempotency_key_is_forgotten_after_a_day(database: Database) -> None:
    once = Once(TENANT, "POST /x", "key")
    replies = iter(range(10))

    def create(_: object) -> CreationReply:
        return CreationReply(201, {"number": next(replies)}, {})

    assert [once.create(database, b"one", create).body["number"] for _ in range(2)] == [0, 0]
    with pytest.raises(Invalid):
        once.create(database, b"other", create)
    with database.write() as session:
        session.execute(update(IdempotencyKey).values(created_at=now() - KEPT_SECONDS - 1))
    assert once.kept(database, b"one") is None
    assert once.create(database, b"other", create).body == {"number": 1}
    kept = once.kept(database, b"other")
    assert kept is not None
    assert (kept.body, kept.replayed) == ({"number": 1}, True)
    with pytest.raises(Invalid):
        once.kept(database, b"one")
    assert Once("another", "POST /x", "key").create(database, b"one", create).body == {"number": 2}
