"""Calls that meet on PostgreSQL, stopped at the moment that matters: nobody waits for ever, nothing is half done."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from ctp_core.kb.facts_builder import BuiltKB
from service.db.engine import Database
from service.db.tables import Job, Kb, ModelVersion
from service.errors import Conflict, NotFound, TooMany
from service.kbs import repository as kb_rows
from service.kbs import service as kbs
from service.local.cluster import wait_for
from service.models import service as models
from service.settings import Settings
from service.training import lease, outcomes, repository, service
from service.training.schemas import TrainRequest
from tests.built_kbs import built
from tests.stores import files_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
TENANT = "default"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def facts(*objects: str) -> BuiltKB:
    return built(("a", "p", name) for name in objects)


@pytest.fixture
def database(postgres_database: Database) -> Database:
    kbs.create(postgres_database, files_of(postgres_database), TENANT, "small", facts("b"))
    return postgres_database


def submit(database: Database, seeds: list[int]) -> Job:
    with database.write() as session:
        request = TrainRequest(kb="small", name="m", config={"method": "proofs"}, seeds=seeds)
        return service.submit(session, TENANT, request, Settings())[0]


def num_waiting(database: Database) -> int:
    with database.read() as session:
        return int(session.scalar(text(WAITING)) or 0)


class Meanwhile:
    """Calls in another thread."""

    def __init__(self, database: Database, pool: ThreadPoolExecutor) -> None:
        self.database, self.pool = database, pool

    def begin(self, call: Callable[[], Any]) -> "Future[Any]":
        """Returns when the call waits for a lock that we hold."""
        future = self.pool.submit(call)
        wait_for(lambda: num_waiting(self.database) == 1 or future.done(), "the other call waits for us", 30)
        assert not future.done(), future.result()
        return future


@pytest.fixture
def meanwhile(database: Database) -> Iterator[Meanwhile]:
    with ThreadPoolExecutor(1) as pool:
        yield Meanwhile(database, pool)


def claim(database: Database, job_id: str) -> repository.Claim | None:
    with database.write() as session:
        return lease.claim(session, job_id, "worker", 30.0)


def test_a_seed_that_is_claimed_while_its_job_is_cancelled_is_not_had(database: Database, meanwhile: Meanwhile) -> None:
    parent = submit(database, [0, 1])
    with database.read() as session:
        child = repository.children(session, [parent])[parent.id][0]
    with database.write() as session:
        held = repository.lock(session, parent.id)
        claimed = meanwhile.begin(lambda: claim(database, child.id))
        assert outcomes.cancel(session, held, 30.0)
    assert claimed.result(30) is None


def test_two_seeds_that_end_at_once_end_their_job(database: Database, meanwhile: Meanwhile) -> None:
    parent = submit(database, [0, 1])
    with database.read() as session:
        children = repository.children(session, [parent])[parent.id]
    claims = [claim(database, child.id) for child in children]

    def fail(session: Session, held: repository.Claim | None) -> None:
        assert held is not None
        outcomes.fail(session, held, {"code": "x", "detail": "x"})

    def fail_second() -> None:
        with database.write() as session:
            fail(session, claims[1])

    with database.write() as session:
        fail(session, claims[0])
        second = meanwhile.begin(fail_second)
    second.result(30)
    with database.read() as session:
        assert session.get_one(Job, parent.id).status == "failed"
        assert session.get_one(ModelVersion, parent.model_id).status == "failed"


def test_a_kb_that_is_being_trained_on_is_not_deleted(database: Database, meanwhile: Meanwhile) -> None:
    with database.write() as session:
        request = TrainRequest(kb="small", name="m", config={"method": "proofs"})
        service.submit(session, TENANT, request, Settings())
        deleted = meanwhile.begin(lambda: kbs.delete(database, TENANT, "small"))
    with pytest.raises(Conflict, match="m@1 stands on") as refused:
        deleted.result(30)
    assert refused.value.code == "kb_in_use"


def test_a_kb_that_is_being_deleted_is_not_trained_on(database: Database, meanwhile: Meanwhile) -> None:
    with database.write() as session:
        kb_rows.give_up(session, kbs.held(session, TENANT, "small", to_delete=True))
        submitted = meanwhile.begin(lambda: submit(database, [0]))
    with pytest.raises(NotFound, match="there is no KB 'small'"):
        submitted.result(30)
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 0


def add_loading(session: Session, name: str) -> None:
    """What the first transaction of an upload writes."""
    counts = {"num_facts": 1, "num_entities": 2, "num_predicates": 1, "splits": {"train": 1}, "warnings": []}
    names = {"id": f"kb_{name}", "tenant": TENANT, "name": name, "kind": "facts", "sha256": ""}
    kb = Kb(**names, **counts, status="loading")
    session.add(kb)
    session.flush()
    assert kb_rows.still_loading(session, kb)


def test_of_two_uploads_that_take_a_name_at_once_one_is_told_that_it_is_taken(
    database: Database, meanwhile: Meanwhile
) -> None:
    with database.write() as session:
        add_loading(session, "new")
        second = meanwhile.begin(lambda: kbs.create(database, files_of(database), TENANT, "new", facts("c")))
    with pytest.raises(Conflict, match="is still being loaded"):
        second.result(30)


def test_a_name_whose_taker_gave_up_is_free_for_the_one_who_waited(database: Database, meanwhile: Meanwhile) -> None:
    with database.write() as session:
        add_loading(session, "new")
        second = meanwhile.begin(lambda: kbs.create(database, files_of(database), TENANT, "new", facts("c")))
        session.rollback()
    kb, created = second.result(30)
    assert (kb.name, created) == ("new", True)


def test_many_uploads_of_one_name_at_once_make_one_kb(database: Database) -> None:
    def upload(_: int) -> str:
        try:
            return kbs.create(database, files_of(database), TENANT, "many", facts("c"))[0].id
        except Conflict as error:
            return error.code

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(upload, range(16)))
    assert len(answers - {"kb_loading"}) == 1
    with database.read() as session:
        assert session.scalar(select(func.count()).where(Kb.name == "many")) == 1


def test_many_trainings_at_once_do_not_exceed_what_may_wait(database: Database) -> None:
    def train(number: int) -> str:
        try:
            with database.write() as session:
                request = TrainRequest(kb="small", name=f"m{number}", config={"method": "proofs"})
                return service.submit(session, TENANT, request, Settings(max_queued_jobs=2))[0].status
        except TooMany as error:
            return error.code

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(train, range(8)))
    assert answers == ["queued"] * 2 + ["too_many_queued_jobs"] * 6


def test_an_alias_that_many_set_at_once_is_set_by_each_of_them(database: Database) -> None:
    with database.write() as session:
        for version in range(1, 9):
            values = {"tenant": TENANT, "name": "m", "version": version, "status": "ready", "artifact": "x"}
            lineage = {
                "kind": "facts",
                "method": "proofs",
                "config": {},
                "kb_sha256": "",
                "code_version": "",
                "metrics": {},
                "tags": {},
            }
            session.add(ModelVersion(id=f"model_{version}", **values, **lineage))

    def point(version: int) -> int:
        with database.write() as session:
            return models.set_alias(session, TENANT, "m", "champion", version).version

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(point, range(1, 9))) == list(range(1, 9))
