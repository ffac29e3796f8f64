"""The rules of a training are written in chunks that nobody sees, and belong to the model when its job ends."""

from collections.abc import Callable

import pytest
from sqlalchemy import event, func, select
from sqlalchemy.orm import Session

from ctp_core.rules import Body, Rule, Step
from service.db.engine import Database
from service.db.tables import Job, ModelVersion, RuleRow
from service.kbs import service as kbs
from service.models import staging
from service.training import outcomes, repository
from service.training.outcomes import rule_values
from service.training.repository import Claim, LeaseLost
from tests.built_kbs import built
from tests.service.test_outcomes import LEASE, TENANT, claim, finish, job_of, model_of, submit

RULES = rule_values(Rule("p", Body((Step(f"q{number}"),)), 0.5) for number in range(7))


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "CHUNK_RULES", 3)


@pytest.fixture
def database(either_database: Database) -> Database:
    kbs.create(either_database, TENANT, "small", built([("a", "p", "b")]))
    return either_database


def writer(database: Database) -> staging.Write:
    def write(what: Callable[[Session], None]) -> None:
        with database.write() as session:
            what(session)

    return write


def staged(database: Database, held: Claim) -> str:
    found = staging.stage_rules(writer(database), held, RULES)
    assert found is not None
    return found


def rules_of(database: Database, model_id: str) -> list[str]:
    with database.read() as session:
        statement = select(RuleRow.text).where(RuleRow.model_id == model_id).order_by(RuleRow.position)
        return list(session.scalars(statement))


def numbers(database: Database) -> tuple[int, int]:
    """(versions, rules) in the database."""
    with database.read() as session:
        counted = [session.scalar(select(func.count()).select_from(table)) for table in (ModelVersion, RuleRow)]
    return counted[0] or 0, counted[1] or 0


def test_a_model_has_its_rules_when_its_job_ends_and_not_before(database: Database) -> None:
    job = submit(database)
    held = claim(database, job)
    version = staged(database, held)
    assert rules_of(database, job.model_id) == []
    staging.sweep(database)
    finish(database, held, staged=version)
    assert model_of(database, job).status == "ready"
    assert rules_of(database, job.model_id) == [rule["text"] for rule in RULES]
    assert numbers(database) == (1, 7)


def test_no_transaction_inserts_more_rules_than_a_chunk(sqlite_database: Database) -> None:
    kbs.create(sqlite_database, TENANT, "small", built([("a", "p", "b")]))
    written: list[int] = []

    def note(_: object, __: object, statement: str, rows: list[object], ___: object, many: bool) -> None:
        if statement.startswith("INSERT INTO rules"):
            written.append(len(rows) if many else 1)

    job = submit(sqlite_database)
    event.listen(sqlite_database.engine, "before_cursor_execute", note)
    finish(sqlite_database, held := claim(sqlite_database, job), staged=staged(sqlite_database, held))
    assert written == [3, 3, 1]


def test_a_chunk_whose_commit_was_not_heard_of_may_be_written_again(database: Database) -> None:
    held = claim(database, submit(database))
    once = writer(database)

    def twice(what: Callable[[Session], None]) -> None:
        once(what)
        once(what)

    version = staging.stage_rules(twice, held, RULES)
    assert version is not None
    assert rules_of(database, version) == [rule["text"] for rule in RULES]


def test_what_an_attempt_that_was_broken_off_has_left_is_swept_when_its_job_has_ended(database: Database) -> None:
    job = submit(database)
    lost = claim(database, job)
    staged(database, lost)
    with database.write() as session:
        repository.write_held(session, lost, status="queued")
    with pytest.raises(LeaseLost):
        staged(database, lost)
    held = claim(database, job)
    finish(database, held, staged=staged(database, held))
    assert numbers(database) == (2, 14)
    staging.sweep(database)
    assert numbers(database) == (1, 7)
    assert len(rules_of(database, job.model_id)) == 7


@pytest.mark.slow
def test_the_rules_of_seeds_stay_until_the_best_is_chosen(database: Database) -> None:
    parent = submit(database, seeds=[0, 1])
    with database.read() as session:
        children = repository.children(session, [parent])[parent.id]
    for child, mrr in zip(children, (0.9, 0.1), strict=True):
        held = claim(database, child)
        finish(database, held, mrr, staged(database, held))
        staging.sweep(database)
    assert job_of(database, parent).status == "succeeded"
    assert len(rules_of(database, parent.model_id)) == 7
    assert numbers(database) == (1, 7)


def test_a_cancelled_job_leaves_no_rules(database: Database) -> None:
    job = submit(database)
    staged(database, claim(database, job))
    with database.write() as session:
        outcomes.cancel(session, session.get_one(Job, job.id), LEASE)
    staging.sweep(database)
    assert numbers(database) == (1, 0)
