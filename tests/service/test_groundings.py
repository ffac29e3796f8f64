"""The facts behind a rule, on KBs where looking for all of them would take too long."""

import asyncio
import io
import json
import time
import tracemalloc
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import httpx
import numpy as np
import pytest
from sqlalchemy import event

from ctp_core.kb.facts_builder import KbLimits
from ctp_core.kb.formats.registry import FORMATS
from ctp_core.kb.formats.rows import FileLimits
from ctp_core.kb.graphs_builder import GraphsBuilder
from service.app import create_app
from service.db.engine import Database
from service.db.migrate import migrate
from service.db.tables import Kb, ModelVersion, RuleRow
from service.facts.reading import StoredFacts
from service.kbs import service as kbs
from service.kbs.whole import KbRows
from service.models import service
from service.models.groundings import NOBODY, Edges, Premises, Search, named
from service.models.repository import kb_of
from service.settings import Settings
from service.training.outcomes import add_rules
from tests.built_kbs import built
from tests.stores import files_of

TWO_HOPS = [("X", "Z"), ("Z", "Y")]


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    return sqlite_database


def hub(database: Database, num: int) -> Kb:
    """Everybody is two hops from everybody else, and one of the heads is stated."""
    into = [(f"a{i}", "q", "hub") for i in range(num)]
    out = [("hub", "q", f"b{i}") for i in range(num)]
    facts = [*into, *out, (f"a{num - 1}", "p", f"b{num - 1}")]
    return kbs.create(database, files_of(database), "default", "hub", built(facts))[0]


def stored(database: Database, kb: Kb) -> StoredFacts:
    return rows_of(database, kb).open(files_of(database))


def rows_of(database: Database, kb: Kb) -> KbRows:
    with database.read() as session:
        return KbRows.of(session, kb)


def premises(database: Database, kb: Kb, wanted: RuleRow, kind: type[Premises] = Premises) -> Premises:
    return kind.read(stored(database, kb), rows_of(database, kb).graphs, wanted)


def rule(*body: tuple[str, str]) -> RuleRow:
    atoms = [{"predicate": "q", "subject": subject, "object": object_} for subject, object_ in body]
    return RuleRow(head={"predicate": "p", "subject": "X", "object": "Y"}, body=atoms)


def test_the_kb_of_an_imported_model_may_be_uploaded_after_it(database: Database) -> None:
    mine, sha256 = hub(database, 3), "1" * 64
    imported = ModelVersion(tenant="default", kb_id=None, kb_sha256=sha256)
    with database.write() as session:
        assert kb_of(session, imported) is None
        session.get_one(Kb, mine.number).sha256 = sha256
        session.flush()
        found = kb_of(session, imported)
        assert found is not None
        assert found.id == mine.id
        assert kb_of(session, ModelVersion(tenant="other", kb_id=None, kb_sha256=sha256)) is None


@pytest.mark.parametrize("num_graphs", [1, 3])
def test_facts_are_found_by_whatever_is_known_of_them(num_graphs: int) -> None:
    """As by a look at each of them; nobody, and an entity beyond all others, have none."""
    rows = np.unique(np.random.default_rng(0).integers(0, [num_graphs, 4, 5], (25, 3)), axis=0)
    edges = Edges(rows)
    entities = (None, NOBODY, *range(7))
    for known in product((None, *range(num_graphs + 1)), entities, entities):
        expected = [row for row in rows.tolist() if all(k in (None, r) for k, r in zip(known, row, strict=True))]
        assert sorted(map(list, edges.matches(*known))) == expected


def test_a_predicate_without_facts_has_none() -> None:
    edges = Edges(np.zeros((0, 3), dtype=np.int64))
    assert list(edges.matches(None, None, None)) == list(edges.matches(0, 1, None)) == []


def test_a_known_head_is_found_although_a_join_would_take_for_ever(database: Database) -> None:
    kb = hub(database, 3000)
    search = Search(premises(database, kb, rule(*TWO_HOPS)), seconds=30.0)
    began = time.process_time()
    (way,) = search.found(known=True, limit=50)
    assert time.process_time() - began < 1, "nine million ways lead over the hub"
    assert [str(fact.subject) for fact in named(stored(database, kb), rule(*TWO_HOPS), [way])[0]] == ["a2999", "hub"]
    assert not search.truncated


@pytest.mark.slow
def test_a_large_kb_takes_little_memory(database: Database) -> None:
    """The search runs in the API; dictionaries of as many facts took nearly five hundred bytes for each."""
    kb = hub(database, 30_000)
    tracemalloc.start()
    try:
        search = Search(premises(database, kb, rule(*TWO_HOPS)))
        assert search.found(known=True, limit=1)
        assert tracemalloc.get_traced_memory()[1] < 200 * kb.num_facts
    finally:
        tracemalloc.stop()


def test_the_search_ends_when_its_time_is_up(database: Database) -> None:
    kb = hub(database, 1000)
    search = Search(premises(database, kb, rule(*TWO_HOPS)), seconds=0.2)
    began = time.monotonic()
    assert len(search.found(known=False, limit=10**9)) > 0
    assert time.monotonic() - began < 20
    assert search.truncated


def test_a_body_that_leaves_an_end_open_is_shown_once(database: Database) -> None:
    kb = hub(database, 5)
    search = Search(premises(database, kb, rule(("X", "Z"))))
    assert len(search.found(known=True, limit=50)) == 1
    assert len(search.found(known=False, limit=50)) == 9
    assert search.found(known=False, limit=0) == []
    assert not search.truncated


def test_facts_of_different_graphs_do_not_meet(database: Database) -> None:
    stories = [
        {"facts": [["ann", "q", "bob"], ["bob", "q", "cem"]], "subject": "ann", "object": "cem", "label": "p"},
        {"facts": [["cem", "q", "dan"], ["eve", "q", "bob"]], "subject": "cem", "object": "dan", "label": "r"},
        {"facts": [["ann", "q", "bob"], ["bob", "q", "dan"]], "subject": "ann", "object": "dan", "label": "r"},
    ]
    content = io.BytesIO("\n".join(map(json.dumps, stories)).encode())
    builder = GraphsBuilder(KbLimits())
    builder.add("train", FORMATS["graphs"].read(content, "stories.jsonl", FileLimits()), "stories.jsonl")
    kb, _ = kbs.create(database, files_of(database), "default", "stories", builder.build())
    search = Search(premises(database, kb, rule(*TWO_HOPS)))
    known, unknown = (named(stored(database, kb), rule(*TWO_HOPS), search.found(k, 50)) for k in (True, False))
    assert [[str(fact) for fact in way] for way in known] == [["q(ann, bob)", "q(bob, cem)"]]
    assert [[str(fact) for fact in way] for way in unknown] == [["q(ann, bob)", "q(bob, dan)"]]


class Timed(Premises):
    """Notes when the first facts are sorted."""

    first: ClassVar[float] = 0.0

    def edges(self, predicate: str) -> Edges:
        Timed.first = Timed.first or time.monotonic()
        return super().edges(predicate)


def test_the_time_to_sort_the_facts_counts_but_leaves_some_for_the_search(database: Database) -> None:
    found = premises(database, hub(database, 3), rule(*TWO_HOPS), Timed)
    assert Search(found, seconds=1024.0).ends - 1024.0 <= Timed.first
    before = time.monotonic()
    assert Search(found, seconds=0.0).ends >= before


def test_no_connection_is_held_while_facts_are_joined(database: Database) -> None:
    kb, wanted = hub(database, 3), rule(*TWO_HOPS)
    model = ModelVersion(
        id="model_1", tenant="default", name="m", version=1, status="ready", kind="facts", method="rules"
    )
    model.config, model.metrics, model.tags, model.trials, model.artifact = {}, {}, {}, [], "files"
    model.kb_id, model.kb_sha256, model.code_version = kb.id, kb.sha256, "1"
    with database.write() as session:
        session.add(model)
        session.flush()
        values = {
            "rule_id": "r",
            "predicate": "p",
            "text": "p(X,Y) :- q(X,Z), q(Z,Y)",
            "template": "2",
            "confidence": 0.5,
        }
        add_rules(session, model.id, [{**values, "head": wanted.head, "body": wanted.body}])
    taken = 0

    @event.listens_for(database.engine, "checkout")
    def count(*_: Any) -> None:
        nonlocal taken
        taken += 1

    found = service.grounded(database, files_of(database), "default", "m", "r", 0, 50)
    assert (len(found.items), found.items[0].known, taken) == (9, True, 1), "one to find the files"


def test_a_tenant_has_so_many_calls_for_groundings_under_way(tmp_path: Path) -> None:
    app = create_app(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1", max_groundings=1))
    migrate(app.state.database.engine)

    async def ask() -> list[tuple[int, str]]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            with app.state.grounding.place("default"):
                answers = [await client.get("/models/m/rules/r/groundings")]
            answers.append(await client.get("/models/m/rules/r/groundings"))
        return [(answer.status_code, answer.json()["code"]) for answer in answers]

    assert asyncio.run(ask()) == [(429, "too_many_groundings"), (404, "model_not_found")]
    app.state.database.dispose()
