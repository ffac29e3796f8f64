"""Evaluations in the process that does them."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import update

from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.kb.facts_builder import KbLimits
from ctp_core.kb.graphs_builder import GraphsBuilder
from ctp_core.kb.holdout import Holdout
from service.db.migrate import migrate
from service.db.tables import Job, ModelVersion
from service.errors import Conflict, Invalid, NotFound, TooMany
from service.evaluations import service
from service.evaluations.schemas import EvaluationOut, EvaluationRequest
from service.files.store_owner import adopt
from service.kbs import service as kbs
from service.settings import Settings
from service.training import lease, repository
from service.training import service as training
from service.training.schemas import TrainRequest
from tests.built_kbs import built
from tests.stores import files_of
from worker.batch_job import BatchJob
from worker.training_job import TrainingJob

TENANT = "default"
FACTS = [(f"a{i}", predicate, f"a{i + 1}") for i in range(1, 12) for predicate in "pq"]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """With a model of a small KB in its database, and one that can answer on other KBs."""
    made = TrainingJob(Settings(data_dir=tmp_path_factory.mktemp("data"), device="cpu", threads=1, max_queued_jobs=5))
    migrate(made.database.engine)
    adopt(made.database, made.storage)
    for name, facts in {"small": FACTS, "other": FACTS[4:]}.items():
        kbs.create(
            made.database,
            files_of(made.database),
            TENANT,
            name,
            built(facts, test=[("a1", "p", "a3"), ("a2", "q", "a9")]),
        )
    kbs.create(made.database, files_of(made.database), TENANT, "one-file", built(FACTS))
    for kb, name, method in (
        ("small", "plain", "distmult"),
        ("small", "proofs", "rules"),
        ("one-file", "one", "rules"),
    ):
        config = {"method": method, "search": []} | ({"epochs": 2} if method == "distmult" else {})
        with made.database.write() as session:
            job, _ = training.submit(session, TENANT, TrainRequest(kb=kb, name=name, config=config), made.settings)
        made.run(job.id)
    made.database.dispose()
    return made.settings


@pytest.fixture
def evaluating(settings: Settings) -> Iterator[BatchJob]:
    made = BatchJob(settings, threading.Event())
    yield made
    with made.database.write() as session:
        session.execute(update(Job).where(Job.status == "queued").values(status="cancelled"))
    made.database.dispose()


def submitted(evaluating: BatchJob, tenant: str = TENANT, **body: Any) -> Job:
    with evaluating.database.write() as session:
        return service.submit(session, tenant, EvaluationRequest(**{"model": "plain"} | body), evaluating.settings)


def evaluated(evaluating: BatchJob, **body: Any) -> EvaluationOut:
    job = submitted(evaluating, **body)
    evaluating.run(job.id)
    with evaluating.database.read() as session:
        return service.look_up(session, TENANT, job.id)


def test_an_evaluation_ends_with_its_figures(evaluating: BatchJob) -> None:
    found = evaluated(evaluating)
    assert (found.status, found.num_items, found.kb, found.split) == ("succeeded", 2, "small", "test")
    assert set(found.metrics) == {"mrr", "hits@1", "hits@3", "hits@10"}
    assert [group.name for group in found.by_direction] == ["object", "subject"]
    assert found.progress["text"] == "done"


def test_a_model_stays_what_it_was_when_its_evaluation_fails_or_is_cancelled(
    evaluating: BatchJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr("worker.evaluation_job.evaluate", fail)
    failed = evaluated(evaluating)
    assert (failed.status, (failed.error or {})["code"]) == ("failed", "evaluation_crashed")
    job = submitted(evaluating)
    training.cancel(evaluating.database, TENANT, job.id, 1.0)
    with evaluating.database.read() as session:
        assert session.get_one(Job, job.id).status == "cancelled"
        model = session.get_one(ModelVersion, job.model_id)
        assert (model.status, model.artifact is None) == ("ready", False)


def test_an_evaluation_that_takes_too_long_asks_for_a_limit(settings: Settings) -> None:
    hurried = BatchJob(settings.model_copy(update={"evaluation_seconds": 1e-9}), threading.Event())
    failed = evaluated(hurried)
    assert (failed.error or {})["code"] == "evaluation_too_long"
    assert "`limit`" in (failed.error or {})["detail"]
    hurried.database.dispose()


def test_a_worker_that_must_stop_gives_its_evaluation_back(
    evaluating: BatchJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submitted(evaluating)
    monkeypatch.setattr("worker.evaluation_job.limit_threads", lambda _: evaluating.stop.set())
    evaluating.run(job.id)
    with evaluating.database.read() as session:
        assert session.get_one(Job, job.id).status == "queued"


def test_a_model_can_be_evaluated_on_another_kb_if_its_method_can(evaluating: BatchJob) -> None:
    found = evaluated(evaluating, model="proofs", kb="other")
    assert (found.status, found.kb, found.error) == ("succeeded", "other", None)
    with pytest.raises(Invalid, match="distmult") as raised:
        submitted(evaluating, kb="other")
    assert raised.value.code == "bound_to_its_kb"


def test_a_kb_of_another_kind_is_refused(evaluating: BatchJob) -> None:
    graphs = GraphsBuilder(KbLimits())
    graphs.add("train", enumerate(family_graphs(4, (2,), seed=1), 1), "graphs.jsonl")
    kbs.create(evaluating.database, files_of(evaluating.database), TENANT, "graphs", graphs.build())
    with pytest.raises(Invalid, match="a KB of facts") as raised:
        submitted(evaluating, kb="graphs")
    assert raised.value.code == "other_kind"


def test_a_split_that_is_not_there_names_the_remedy(evaluating: BatchJob) -> None:
    with pytest.raises(Invalid, match="`holdout`") as raised:
        submitted(evaluating, model="one")
    assert raised.value.code == "no_such_split"


def test_a_training_can_hold_out_what_it_is_evaluated_on(settings: Settings, evaluating: BatchJob) -> None:
    trainer = TrainingJob(settings)
    config = {"method": "distmult", "search": [], "epochs": 1}
    body = TrainRequest(kb="one-file", name="held", config=config, holdout=Holdout(test=0.2))
    with trainer.database.write() as session:
        job, model = training.submit(session, TENANT, body, settings)
    trainer.run(job.id)
    trainer.database.dispose()
    found = evaluated(evaluating, model="held")
    assert (model.holdout, found.status, found.num_items) == ({"test": 0.2}, "succeeded", 4)
    with pytest.raises(Invalid, match="`holdout`"):
        submitted(evaluating, model="held", split="valid")


def test_a_split_that_is_there_is_not_held_out_once_more(evaluating: BatchJob) -> None:
    body = TrainRequest(kb="small", holdout=Holdout(test=0.2))
    with pytest.raises(Invalid, match="already") as raised, evaluating.database.write() as session:
        training.submit(session, TENANT, body, evaluating.settings)
    assert raised.value.code == "split_exists"


def test_another_tenant_sees_neither_the_model_nor_the_evaluation(evaluating: BatchJob) -> None:
    job = submitted(evaluating)
    with pytest.raises(NotFound, match="model"):
        submitted(evaluating, "stranger")
    with evaluating.database.read() as session, pytest.raises(NotFound) as raised:
        service.look_up(session, "stranger", job.id)
    assert raised.value.code == "evaluation_not_found"


def test_an_evaluation_is_deleted_once_it_has_ended(evaluating: BatchJob) -> None:
    job = submitted(evaluating)
    with pytest.raises(Conflict, match="cancel first") as raised, evaluating.database.write() as session:
        service.delete(session, TENANT, job.id)
    assert raised.value.code == "evaluation_active"
    training.cancel(evaluating.database, TENANT, job.id, 1.0)
    with evaluating.database.write() as session:
        service.delete(session, TENANT, job.id)
    with evaluating.database.read() as session:
        assert session.get(Job, job.id) is None


def test_a_kb_is_kept_while_an_evaluation_needs_it(evaluating: BatchJob) -> None:
    job = submitted(evaluating, model="proofs", kb="other")
    with pytest.raises(Conflict, match="uses 'other'"):
        kbs.delete(evaluating.database, TENANT, "other")
    training.cancel(evaluating.database, TENANT, job.id, 1.0)


def test_evaluations_that_wait_are_counted_with_all_jobs(evaluating: BatchJob) -> None:
    for _ in range(5):
        submitted(evaluating)
    with pytest.raises(TooMany):
        submitted(evaluating)


def test_tenants_take_turns(evaluating: BatchJob) -> None:
    """A tenant with many evaluations does not keep the only one of another waiting."""
    mine = [submitted(evaluating).id for _ in range(3)]
    with evaluating.database.write() as session:
        job = session.get_one(Job, mine[0])
        values = {key: value for key, value in vars(job).items() if not key.startswith("_")}
        session.add(Job(**values | {"id": "job_of_another", "tenant": "another", "created_at": job.created_at + 60}))
    order = []
    while True:
        with evaluating.database.write() as session:
            claimed = lease.claim_next(session, repository.BATCH, "w", 60)
        if claimed is None:
            break
        order.append(claimed.job_id)
    assert sorted(order) == sorted([*mine, "job_of_another"])
    assert order.index("job_of_another") <= 1
    with evaluating.database.write() as session:
        session.execute(update(Job).where(Job.status == "running").values(status="cancelled"))


def test_a_model_that_was_deleted_meanwhile_fails_its_evaluation(evaluating: BatchJob) -> None:
    job = submitted(evaluating)
    with evaluating.database.write() as session:
        model = session.get_one(ModelVersion, job.model_id)
        kept, model.artifact = model.artifact, None
    evaluating.run(job.id)
    with evaluating.database.write() as session:
        ended = session.get_one(Job, job.id)
        session.get_one(ModelVersion, job.model_id).artifact = kept
    assert (ended.status, "deleted" in (ended.error or {})["detail"]) == ("failed", True)
