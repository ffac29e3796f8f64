"""The rules of a training are written in chunks that nobody sees, and belong to the model when its job ends."""

from collections.abc import Callable

import pytest
from sqlalchemy import event, func, select
from sqlalchemy.orm import Session

from ctp_core.rules import Body, Rule, Step
from service.db.engine import Database
from service.db.tables import Job, ModelVersion, RuleRow
from service.errors import Conflict
from service.kbs import service as kbs
from service.models import service as models
from service.models import staging
from service.models.repository import ALL_RULES
from service.training import outcomes, repository
from service.training.outcomes import rule_values
from service.training.repository import Claim, LeaseLost
from tests.built_kbs import built
from tests.service.test_outcomes import LEASE, TENANT, claim, finish, job_of, model_of, submit
from tests.stores import files_of

RULES = rule_values(Rule("p", Body((Step(f"q{number}"),)), 0.5) for number in range(7))


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "CHUNK_RULES", 3)


@pytest.fixture
def database(either_database: Database) -> Database:
    kbs.create(either_database, files_of(either_database), TENANT, "small", built([("a", "p", "b")]))
    return either_database


def writer(database: Database) -> staging.Write:
    def write(what: Callable[[Session], None]) -> None:
        with database.write() as session:
            what(session)

    return write


def staged(database: Database, held: Claim, write: staging.Write | None = None) -> str | None:
    with database.read() as session:
        job = session.get_one(Job, held.job_id)
    return staging.stage_rules(write or writer(database), job, held, RULES)


def settle(database: Database) -> int:
    """Ends the parents whose children have ended, as the dispatcher does; the number of transactions."""
    count = 0
    with database.read() as session:
        (parent,) = outcomes.unsettled(session)
    while True:
        count += 1
        with database.write() as session:
            if outcomes.settle(session, parent):
                return count


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
    with pytest.raises(Conflict), database.read() as session:
        models.rules(session, files_of(database), TENANT, job.model_id, ALL_RULES, -1, 10)
    staging.sweep(database)
    finish(database, held, staged=version)
    assert model_of(database, job).status == "ready"
    assert rules_of(database, job.model_id) == [rule["text"] for rule in RULES]
    assert numbers(database) == (1, 7)


def test_no_transaction_inserts_more_rules_than_a_chunk(sqlite_database: Database) -> None:
    kbs.create(sqlite_database, files_of(sqlite_database), TENANT, "small", built([("a", "p", "b")]))
    written: list[int] = []

    def note(_: object, __: object, statement: str, rows: list[object], ___: object, many: bool) -> None:
        if statement.startswith("INSERT INTO rules"):
            written.append(len(rows) if many else 1)

    job = submit(sqlite_database)
    event.listen(sqlite_database.engine, "before_cursor_execute", note)
    finish(sqlite_database, held := claim(sqlite_database, job), staged=staged(sqlite_database, held))
    assert written == [3, 3, 1]


def test_a_chunk_whose_commit_was_not_heard_of_may_be_written_again(database: Database) -> None:
    job = submit(database)
    held = claim(database, job)
    once = writer(database)

    def twice(what: Callable[[Session], None]) -> None:
        once(what)
        once(what)

    staged(database, held, twice)
    assert rules_of(database, job.model_id) == [rule["text"] for rule in RULES]


def broken_off(database: Database, job: Job) -> None:
    """An attempt that has written its rules, and more than the next one will."""
    lost = claim(database, job)
    version = staged(database, lost) or job.model_id
    with database.write() as session:
        outcomes.add_rules(session, version, RULES, len(RULES))
        repository.write_held(session, lost, status="queued")
    with pytest.raises(LeaseLost):
        staged(database, lost)


def test_the_next_attempt_replaces_what_one_that_was_broken_off_has_left(database: Database) -> None:
    job = submit(database)
    broken_off(database, job)
    held = claim(database, job)
    finish(database, held, staged=staged(database, held))
    assert numbers(database) == (1, 7)
    assert rules_of(database, job.model_id) == [rule["text"] for rule in RULES]


def test_what_an_attempt_of_a_seed_has_left_is_swept_when_its_parent_has_ended(database: Database) -> None:
    parent = submit(database, seeds=[0, 1])
    with database.read() as session:
        children = repository.children(session, [parent])[parent.id]
    broken_off(database, children[0])
    for child in children:
        held = claim(database, child)
        finish(database, held, staged=staged(database, held))
    settle(database)
    staging.sweep(database)
    assert numbers(database) == (1, 7)


def test_the_rules_of_the_best_seed_are_given_to_the_model_in_chunks_and_it_shows_them_at_once(
    database: Database,
) -> None:
    """All in one transaction, 40,000 kept everybody else from writing for two seconds."""
    parent = submit(database, seeds=[0, 1])
    with database.read() as session:
        children = repository.children(session, [parent])[parent.id]
    for child, mrr in zip(children, (0.1, 0.9), strict=True):
        held = claim(database, child)
        finish(database, held, mrr, staged(database, held))
    assert len(rules_of(database, parent.model_id)) == 3, "the first chunk"
    assert (job_of(database, parent).status, model_of(database, parent).status) == ("running", "pending")
    staging.sweep(database)
    assert settle(database) == 2
    assert (job_of(database, parent).status, model_of(database, parent).status) == ("succeeded", "ready")
    assert rules_of(database, parent.model_id) == [rule["text"] for rule in RULES]
    staging.sweep(database)
    assert numbers(database) == (1, 7)


@pytest.mark.slow
def test_the_rules_of_seeds_stay_until_the_best_is_chosen(database: Database) -> None:
    parent = submit(database, seeds=[0, 1])
    with database.read() as session:
        children = repository.children(session, [parent])[parent.id]
    for child, mrr in zip(children, (0.9, 0.1), strict=True):
        held = claim(database, child)
        finish(database, held, mrr, staged(database, held))
        staging.sweep(database)
    settle(database)
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
