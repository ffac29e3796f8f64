"""The many rules of a model in its archive: unpacked, imported, deleted and exported without keeping others waiting."""

import asyncio
import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, event, func, select
from sqlalchemy.orm import Session

from ctp_core.errors import ArtifactError
from ctp_core.manifest import MANIFEST, TENSORS
from service.db.engine import Database
from service.db.tables import ModelVersion, RuleRow
from service.errors import Conflict
from service.files.storage import Storage
from service.models import repository as models
from service.models import service, staging
from service.models.archive import unpack
from service.models.transfer import EXPORTED_RULES, Import, export, exported_rules
from service.settings import Settings
from service.training.outcomes import CHUNK_RULES, add_rules
from tests.service.test_archives import RULES, archive
from tests.service.test_large_bodies import ticks_during
from tests.stores import folder_store


@contextmanager
def rules_watched(database: Database) -> Iterator[list[int]]:
    """Yields the number of stored rules after each transaction."""
    seen: list[int] = []

    def look(_: Session) -> None:
        with database.engine.connect() as connection:
            seen.append(connection.scalar(select(func.count()).select_from(RuleRow)) or 0)

    event.listen(Session, "after_commit", look)
    try:
        yield seen
    finally:
        event.remove(Session, "after_commit", look)


def steps(seen: list[int]) -> list[int]:
    """How many rules each transaction wrote or removed, without those that did neither."""
    return [abs(after - before) for before, after in pairwise([0, *seen]) if after != before]


def imported(database: Database, folder: Path) -> ModelVersion:
    found = Import(io.BytesIO(archive(rules=RULES)), None, Settings(data_dir=folder))
    found.store(database, folder_store(folder / "artifacts"))
    found.stage(database)
    with database.read() as session:
        assert models.listing(session, "default", None, None, None, 10) == [], "nobody sees it yet"
    with database.write() as session:
        return found.register(session, "default")


@pytest.mark.slow
def test_an_import_of_many_rules_lets_others_write_meanwhile(either_database: Database, tmp_path: Path) -> None:
    with rules_watched(either_database) as seen:
        model = imported(either_database, tmp_path)
    assert (model.name, model.version, model.status) == ("imported", 1, "ready")
    with either_database.read() as session:
        rules = models.rules(session, model, models.ALL_RULES)
    assert [rule.head for rule in rules] == [rule["head"] for rule in RULES]
    assert steps(seen) == [CHUNK_RULES, CHUNK_RULES, 1], "rules in one transaction"


@pytest.mark.slow
def test_deleting_a_model_of_many_rules_lets_others_write_meanwhile(either_database: Database, tmp_path: Path) -> None:
    model = imported(either_database, tmp_path)
    with rules_watched(either_database) as seen:
        with either_database.write() as session:
            service.delete(session, "default", model.id, 0.0)
        with either_database.read() as session, pytest.raises(Conflict, match="is deleted"):
            service.rules(session, "default", model.id, models.ALL_RULES, -1, 10)
        staging.sweep(either_database)
    assert steps(seen)[1:] == [CHUNK_RULES, CHUNK_RULES, 1], "rules in one transaction"
    assert seen[-1] == 0


@pytest.mark.slow
def test_others_are_answered_while_an_archive_of_many_rules_is_unpacked() -> None:
    rules = [{**RULES[0], "head": {**RULES[0]["head"], "predicate": f"p{number}"}} for number in range(30_000)]
    many = io.BytesIO(archive(rules=rules))
    ticks, found = asyncio.run(ticks_during(asyncio.to_thread(unpack, many, Settings())))
    assert len(found.rules) == 30_000
    assert ticks > 100


@pytest.mark.slow
def test_rules_are_held_in_few_large_pieces() -> None:
    """Python's allocator never gives back what it took for as many small objects."""
    rules = unpack(io.BytesIO(archive(rules=RULES[:1000])), Settings()).rules
    assert len(rules.pieces) == 10
    assert min(map(len, rules.pieces)) > 512
    assert [json.loads(rule)["head"]["predicate"] for rule in rules] == [f"p{number}" for number in range(1000)]


def test_of_equal_rules_in_a_long_list_the_most_confident_is_held() -> None:
    better, worse = [{**RULES[number], "confidence": c} for number, c in ((7, 0.8), (8, 0.2))]
    rules = unpack(io.BytesIO(archive(rules=[*RULES[:300], better, worse])), Settings()).rules
    found = {rule["head"]["predicate"]: rule["confidence"] for rule in map(json.loads, rules)}
    assert (len(rules), len(found), found["p7"], found["p8"]) == (300, 300, 0.8, 0.5)


def trained(database: Database, storage: Storage, rules: list[dict[str, Any]]) -> None:
    """A model with these rules."""
    with zipfile.ZipFile(io.BytesIO(archive())) as whole:
        files = {name: whole.read(name) for name in (MANIFEST, TENSORS)}
    model = ModelVersion(id="model_1", tenant="default", name="m", version=1, status="ready", kind="facts", config={})
    model.method, model.metrics, model.tags, model.trials, model.kb_sha256 = "proofs", {}, {}, [], "0" * 64
    model.code_version, model.artifact = "1", storage.put("models/model_1/x", files)
    with database.write() as session:
        session.add(model)
        session.flush()
        add_rules(session, model.id, [{"rule_id": "r", "predicate": "p", "text": "", **rule} for rule in rules])


def test_rules_are_exported_some_at_a_time_as_they_are_stored(sqlite_database: Database, tmp_path: Path) -> None:
    storage = folder_store(tmp_path / "artifacts")
    trained(sqlite_database, storage, RULES[: EXPORTED_RULES + 1])
    exported = export(sqlite_database, storage, "default", "m")
    rules = unpack(io.BytesIO(b"".join(exported.content)), Settings()).rules
    assert [json.loads(rule)["head"] for rule in rules] == [rule["head"] for rule in RULES[: EXPORTED_RULES + 1]]


def test_of_more_rules_than_an_archive_may_hold_the_least_confident_are_left_out(
    sqlite_database: Database, tmp_path: Path
) -> None:
    confidences = (0.1, 0.9, 0.1, 0.5, 0.9)
    rules = [{**rule, "confidence": c} for rule, c in zip(RULES, confidences, strict=False)]
    trained(sqlite_database, folder_store(tmp_path / "artifacts"), rules)
    with sqlite_database.read() as session:
        model = session.get_one(ModelVersion, "model_1")
    exported = [rule["head"]["predicate"] for some in exported_rules(sqlite_database, model, most=4) for rule in some]
    assert exported == ["p0", "p1", "p3", "p4"]


def test_an_export_of_a_model_that_is_deleted_meanwhile_is_not_cut_short(
    sqlite_database: Database, tmp_path: Path
) -> None:
    storage = folder_store(tmp_path / "artifacts")
    trained(sqlite_database, storage, RULES[:10])
    exported = export(sqlite_database, storage, "default", "m")
    with sqlite_database.write() as session:
        session.execute(delete(RuleRow))
    with pytest.raises(ArtifactError, match="deleted while it was being read"):
        b"".join(exported.content)
