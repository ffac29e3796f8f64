"""Lists that stay fast: what a page costs SQLite, in steps of its machine, does not grow with what else is there."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import insert
from sqlalchemy.orm import Session

from service.db.engine import Database
from service.db.migrate import migrate
from service.db.tables import Alias, Job, ModelVersion
from service.models import repository as models
from service.models import service as registry
from service.training import outcomes
from service.training import repository as jobs

TENANT = "default"
FEW, MANY = 200, 4000
PAGE = 10
VERSIONS = 10  # of each name


def fill(session: Session, count: int) -> None:
    """A finished job and an alias for each version."""
    places = [(place, f"m{place // VERSIONS}", f"model_{place:06}") for place in range(count)]
    lineage = {"kb_sha256": "0" * 64, "code_version": "1", "config": {}, "metrics": {}, "tags": {}}
    session.execute(
        insert(ModelVersion),
        [
            {"id": model, "tenant": TENANT, "name": name, "version": place % VERSIONS + 1, "status": "ready"}
            | {"kind": "facts", "method": "rules", "created_at": float(place), **lineage}
            for place, name, model in places
        ],
    )
    session.execute(
        insert(Job),
        [
            {"id": f"job_{place:06}", "tenant": TENANT, "model_id": model, "kb_id": "kb", "status": "succeeded"}
            | {"created_at": float(place), "config": {}, "progress": {}}
            for place, _, model in places
        ],
    )
    session.execute(
        insert(Alias),
        [{"tenant": TENANT, "name": name, "alias": f"a{place}", "model_id": model} for place, name, model in places],
    )


def newest_models(session: Session) -> int:
    return len(registry.shown(session, models.listing(session, TENANT, None, None, None, PAGE)))


def oldest_models(session: Session) -> int:
    return len(models.listing(session, TENANT, None, None, (float(PAGE), ""), PAGE))


def one_model(session: Session) -> int:
    found = registry.shown(session, [registry.get(session, TENANT, "m1@5")])[0]
    assert (found.aliases, found.lineage.job_id) == (["a14"], "job_000014")
    return PAGE


def oldest_jobs(session: Session) -> int:
    return len(jobs.listing(session, TENANT, jobs.JobFilter(), (float(PAGE), ""), PAGE))


def parents_to_end(session: Session) -> int:
    return PAGE + len(outcomes.unsettled(session))


@pytest.mark.slow
@pytest.mark.parametrize("look", [newest_models, oldest_models, one_model, oldest_jobs, parents_to_end])
def test_a_page_costs_the_same_however_much_there_is(tmp_path: Path, look: Callable[[Session], int]) -> None:
    few, many = (steps(Database(f"sqlite:///{tmp_path / str(count)}"), count, look) for count in (FEW, MANY))
    assert many < 1.5 * few


def steps(database: Database, count: int, look: Callable[[Session], int]) -> int:
    migrate(database.engine)
    with database.write() as session:
        fill(session, count)
    taken = 0

    def note() -> int:
        nonlocal taken
        taken += 1
        return 0

    with database.read() as session:
        driver = session.connection().connection.driver_connection
        assert driver is not None
        driver.set_progress_handler(note, 1)
        assert look(session) == PAGE
        driver.set_progress_handler(None, 1)
    database.dispose()
    return taken
