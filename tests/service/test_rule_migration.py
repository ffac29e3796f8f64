"""Rules that were stored in the forms of several methods come to have one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Engine, MetaData, Table, insert, select

from ctp_core.prolog_rules import parse_rule
from ctp_core.rules import Atom
from ctp_core.rules_from_atoms import rule_from_atoms
from service.db.engine import make_engine
from service.db.migrate import alembic_config, migrate

P = {"predicate": "p", "subject": "X", "object": "Y"}
LINEAGE: dict[str, Any] = {"tenant": "t", "kb_sha256": "0" * 64, "kind": "facts", "method": "ctp", "code_version": "1"}
EMPTY: dict[str, Any] = {"config": {}, "metrics": {}, "tags": {}}
COUNTERS = dict.fromkeys(("position", "priority", "attempt", "crashes"), 0)
JOB: dict[str, Any] = {"tenant": "t", "model_id": "m0", "kb_id": "k", "status": "running", "config": {}, **COUNTERS}
JOB |= {"has_children": False, "progress": {}}


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "sqlite":
        (tmp_path / "a.db").touch()
        found = make_engine(f"sqlite:///{tmp_path}/a.db")
    else:
        new_url: Callable[[], str] = request.getfixturevalue("new_postgres_url")
        found = make_engine(new_url())
    yield found
    found.dispose()


def upgrade(engine: Engine, revision: str) -> None:
    config = alembic_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def table(engine: Engine, name: str) -> Table:
    return Table(name, MetaData(), autoload_with=engine)


def stored(position: int, body: list[tuple[str, str, str]], confidence: float, **other: Any) -> dict[str, Any]:
    """A row as the versions before wrote it, with an id that is made from its own text."""
    atoms = [{"predicate": name, "subject": subject, "object": object_} for name, subject, object_ in body]
    text = f"p(X,Y) :- {', '.join('{}({},{})'.format(*atom) for atom in body)}"
    row = {"position": position, "rule_id": f"old{position}", "predicate": "p", "head": P, "body": atoms, "text": text}
    return {**row, "template": str(len(body)), "confidence": confidence, "approximate": False, **other}


CTP = [
    stored(0, [("a", "X", "Z1"), ("b", "Z1", "Z2"), ("c", "Z2", "Y")], 0.9),
    stored(1, [("a", "Y", "Z"), ("b", "Z", "X")], 0.8, template="2R"),
    stored(2, [("a", "X", "Y")], 0.7),
]
PROOFS = [
    stored(0, [("a", "X", "Z"), ("b", "Z", "W"), ("c", "W", "Y")], 0.6),
    stored(1, [("b", "Z", "X"), ("a", "Y", "Z")], 0.5),
    stored(2, [("a", "X", "A"), ("b", "A", "B"), ("c", "B", "Y")], 0.95),  # once more, by other names
    stored(3, [("a", "X", "'c'"), ("b", "'c'", "Y")], 0.4),  # not a path of variables
]


def fill(engine: Engine) -> None:
    """Two models before the migration, and a job whose other seeds still go on."""
    upgrade(engine, "0003")
    rules, models, jobs = (table(engine, name) for name in ("rules", "models", "jobs"))
    with engine.begin() as connection:
        for number, rows in enumerate((CTP, PROOFS)):
            name = {"id": f"m{number}", "name": f"m{number}", "version": 1, "status": "ready"}
            connection.execute(insert(models), {**LINEAGE, **EMPTY, **name})
            connection.execute(insert(rules), [{"model_id": f"m{number}", **row} for row in rows])
        for job, result in (("j0", {"rules": [PROOFS[0]], "loss": 0.5}), ("j1", None)):
            connection.execute(insert(jobs), {**JOB, "id": job, "result": result})


def listed(engine: Engine, model: str) -> list[Any]:
    rules = table(engine, "rules")
    with engine.connect() as connection:
        return list(connection.execute(select(rules).where(rules.c.model_id == model).order_by(rules.c.position)))


def test_stored_rules_get_the_text_and_the_id_of_today(engine: Engine) -> None:
    fill(engine)
    migrate(engine)
    chain, back = parse_rule("p(X,Y) :- a(X,Z), b(Z,Z2), c(Z2,Y)"), parse_rule("p(X,Y) :- b(Z,X), a(Y,Z)")
    found = listed(engine, "m0")
    assert [(row.text, row.rule_id, row.template) for row in found[:2]] == [
        (chain.text, chain.id, "3"),
        (back.text, back.id, "2R"),
    ]
    assert [row.confidence for row in found] == [0.9, 0.8, 0.7]
    for row in found:
        assert rule_from_atoms(Atom(**row.head), [Atom(**atom) for atom in row.body], 1.0).text == row.text


@pytest.mark.slow
def test_rows_that_are_the_same_rule_become_one_the_surer(engine: Engine) -> None:
    fill(engine)
    migrate(engine)
    first, second = listed(engine, "m0")[:2]
    found = listed(engine, "m1")
    assert [(row.rule_id, row.confidence) for row in found[:2]] == [(second.rule_id, 0.5), (first.rule_id, 0.95)]
    assert found[2].text == PROOFS[3]["text"], "a rule that is not a path stays as it was"
    assert len(found) == 3


@pytest.mark.slow
def test_rules_of_trainings_that_wait_for_other_seeds_are_rewritten_too(engine: Engine) -> None:
    fill(engine)
    migrate(engine)
    jobs = table(engine, "jobs")
    with engine.connect() as connection:
        results = dict(connection.execute(select(jobs.c.id, jobs.c.result)).all())
    assert results["j1"] is None
    assert results["j0"]["loss"] == 0.5
    assert results["j0"]["rules"][0]["rule_id"] == listed(engine, "m0")[0].rule_id


@pytest.mark.slow
def test_the_migration_may_run_again_on_what_it_has_written(engine: Engine) -> None:
    fill(engine)
    upgrade(engine, "0004")
    before = [listed(engine, "m0"), listed(engine, "m1")]
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0003'")
    upgrade(engine, "0004")
    assert [listed(engine, "m0"), listed(engine, "m1")] == before


@pytest.mark.slow
def test_many_rules_are_rewritten_a_chunk_at_a_time(engine: Engine) -> None:
    fill(engine)
    rules, count = table(engine, "rules"), 2500
    bodies = ([("a", "X", "Z1"), (f"q{n // 2}", "Z1", "Z2"), ("c", "Z2", "Y")] for n in range(count))
    rows = [stored(10 + n, body, n / count) for n, body in enumerate(bodies)]
    with engine.begin() as connection:
        connection.execute(insert(rules), [{"model_id": "m0", **row} for row in rows])
    migrate(engine)
    found = listed(engine, "m0")[3:]
    assert [row.confidence for row in found] == [n / count for n in range(1, count, 2)]
    assert all("Z1" not in row.text for row in found)
