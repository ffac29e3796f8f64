"""The facts behind a rule, on KBs where looking for all of them would take too long."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctp_core.datasets.builder import FactsBuilder, KbLimits
from service.db.engine import Database
from service.db.migrate import migrate
from service.db.tables import Kb, RuleRow
from service.kbs import service as kbs
from service.models.groundings import Search, named

TWO_HOPS = [("X", "Z"), ("Z", "Y")]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(f"sqlite:///{tmp_path / 'ctp.db'}")
    migrate(found.engine)
    yield found
    found.dispose()


def hub(database: Database, num: int) -> Kb:
    """Everybody is two hops from everybody else, and one of the heads is stated."""
    into = [(f"a{i}", "q", "hub") for i in range(num)]
    out = [("hub", "q", f"b{i}") for i in range(num)]
    builder = FactsBuilder(KbLimits())
    facts = [*into, *out, (f"a{num - 1}", "p", f"b{num - 1}")]
    builder.add("train", [(number, *fact) for number, fact in enumerate(facts, 1)], "facts.tsv")
    return kbs.create(database, "default", "hub", builder.build())[0]


def rule(*body: tuple[str, str]) -> RuleRow:
    atoms = [{"predicate": "q", "subject": subject, "object": object_} for subject, object_ in body]
    return RuleRow(head={"predicate": "p", "subject": "X", "object": "Y"}, body=atoms)


def test_a_known_head_is_found_although_a_join_would_take_for_ever(database: Database) -> None:
    kb = hub(database, 3000)
    with database.read() as session:
        search = Search(session, kb, rule(*TWO_HOPS), seconds=30.0)
        began = time.process_time()
        (way,) = search.found(known=True, limit=50)
        assert time.process_time() - began < 1, "nine million ways lead over the hub"
        assert [str(fact.subject) for fact in named(session, kb, rule(*TWO_HOPS), [way])[0]] == ["a2999", "hub"]
    assert not search.truncated


def test_the_search_ends_when_its_time_is_up(database: Database) -> None:
    kb = hub(database, 1000)
    with database.read() as session:
        search = Search(session, kb, rule(*TWO_HOPS), seconds=0.2)
        began = time.monotonic()
        assert len(search.found(known=False, limit=10**9)) > 0
        assert time.monotonic() - began < 20
    assert search.truncated


def test_a_body_that_leaves_an_end_open_is_shown_once(database: Database) -> None:
    kb = hub(database, 5)
    with database.read() as session:
        search = Search(session, kb, rule(("X", "Z")))
        assert len(search.found(known=True, limit=50)) == 1
        assert len(search.found(known=False, limit=50)) == 9
        assert search.found(known=False, limit=0) == []
    assert not search.truncated
