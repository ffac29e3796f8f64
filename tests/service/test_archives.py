"""Archives of models: on their way to a temporary file, unpacked, and registered."""

import asyncio
import io
import os
import tracemalloc
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
import safetensors.numpy
from pydantic import ValidationError
from sqlalchemy import event, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from ctp_core.manifest import MANIFEST, TENSORS, encode_manifest
from ctp_core.rules import quoted
from service.db.engine import Database
from service.db.migrate import migrate
from service.db.tables import ModelVersion, Removal, RuleRow
from service.errors import Invalid, TooMany, storage_problem
from service.files.removals import due
from service.files.storage import StorageFull
from service.http.idempotency import CreationReply, Once
from service.models import repository as models
from service.models import staging
from service.models.archive import Card, CardTrial, pack, rules_of, unpack
from service.models.schemas import TagsIn
from service.models.staging import CHUNK_RULES
from service.models.transfer import Import, alone
from service.models.upload import SPOOL_BYTES, write_pieces
from service.settings import NAME_LIMIT, Settings
from service.training.schemas import TrainRequest
from tests.stores import folder_store

PIECE = b"x" * 65_536


async def pieces(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield PIECE


@pytest.mark.timeout(60)
def test_nobody_waits_for_a_disk_that_is_slow() -> None:
    """A pipe takes 64 KB and then nothing more until somebody reads: here, the loop that also receives the archive."""
    reading, writing = os.pipe()
    count = 3 * SPOOL_BYTES // len(PIECE)

    async def receive() -> int:
        async def read() -> int:
            found = 0
            while found < count * len(PIECE):
                found += len(await asyncio.to_thread(os.read, reading, SPOOL_BYTES))
            return found

        with os.fdopen(writing, "wb", buffering=0) as file:
            _, found = await asyncio.gather(write_all(file), read())
        return found

    async def write_all(file: BinaryIO) -> None:
        await write_pieces(pieces(count), file)

    assert asyncio.run(receive()) == count * len(PIECE)
    os.close(reading)


def test_a_full_disk_is_told_as_such() -> None:
    with Path("/dev/full").open("wb", buffering=0) as file, pytest.raises(StorageFull, match="make room") as caught:
        asyncio.run(write_pieces(pieces(100), file))
    assert storage_problem(caught.value)["status"] == 507


def packed(card: Card, files: dict[str, bytes]) -> bytes:
    return b"".join(pack(card, {name: (len(content), [content]) for name, content in files.items()}))


def archive(**changes: Any) -> bytes:
    """Of a model that has learnt nothing."""
    tensors = safetensors.numpy.save({"weights": np.zeros(2)})
    manifest = encode_manifest({"kind": "facts", "config": {"method": "proofs"}}, tensors)
    values = {"id": "m", "name": "imported", "version": 1, "kind": "facts", "metrics": {}, "tags": {}, "rules": []}
    card = Card.model_validate(values | {"kb_sha256": "0" * 64, "code_version": "1"} | changes)
    return packed(card, {MANIFEST: manifest, TENSORS: tensors})


def test_a_rule_with_the_longest_names_is_packed_and_unpacked() -> None:
    constant = quoted("'" * NAME_LIMIT)
    head = {"predicate": "p" * NAME_LIMIT, "subject": "X", "object": constant}
    rule = {"head": head, "body": [head], "template": "c", "confidence": 1.0}
    card, _, _ = unpack(io.BytesIO(archive(rules=[rule])), Settings())
    assert card.rules[0].head.object == constant


def test_rules_of_an_archive_are_read_in_the_form_of_today() -> None:
    """Text, id and template follow from the atoms; what two forms of one rule say is kept once."""
    head = {"predicate": "p", "subject": "X", "object": "Y"}
    forms = ((("Z1", "Z2"), 0.3), (("Z", "W"), 0.9))
    rules = [
        {
            "head": head,
            "body": [atom("a", "X", z), atom("b", z, w), atom("c", w, "Y")],
            "template": "9",
            "confidence": c,
        }
        for (z, w), c in forms
    ]
    card, _, _ = unpack(io.BytesIO(archive(rules=rules)), Settings())
    (rule,) = rules_of(card)
    assert (rule.text, str(rule.template)) == ("p(X,Y) :- a(X,Z), b(Z,Z2), c(Z2,Y)", "3")
    assert rule.confidence == 0.9


def test_an_archive_whose_rule_is_no_path_is_refused() -> None:
    head = {"predicate": "p", "subject": "X", "object": "Y"}
    body = [atom("a", "X", "Z"), atom("b", "X", "Y")]
    rules = [{"head": head, "body": body, "template": "2", "confidence": 1.0}]
    with pytest.raises(Invalid, match="must be a path"):
        Import(io.BytesIO(archive(rules=rules)), None, Settings())


def atom(predicate: str, subject: str, object_: str) -> dict[str, str]:
    return {"predicate": predicate, "subject": subject, "object": object_}


def test_a_zip_of_many_members_is_refused_before_they_are_listed() -> None:
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as zipped:
        for number in range(20_000):
            zipped.writestr(str(number), b"")
    tracemalloc.start()
    try:
        with pytest.raises(Invalid, match="must hold exactly"):
            unpack(many, Settings())
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_no_text_of_an_archive_holds_what_the_database_cannot_store() -> None:
    with pytest.raises(Invalid, match="NUL"):
        unpack(io.BytesIO(archive(preset="a\0b")), Settings())


def test_an_import_whose_commit_was_not_heard_of_keeps_its_files(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    database, storage = Database(settings.database), folder_store(tmp_path / "artifacts")
    migrate(database.engine)
    found = Import(io.BytesIO(archive()), None, settings)
    found.store(database, storage)
    found.stage(database)

    def unheard(_: Session) -> None:
        raise OperationalError("COMMIT", None, Exception("the connection was lost"))

    def create(session: Session) -> CreationReply:
        return CreationReply(201, {"version": found.register(session, "default").version}, {})

    event.listen(Session, "after_commit", unheard)
    try:
        with pytest.raises(OperationalError):
            found.create(database, Once("default", "POST /models/import", None), create)
    finally:
        event.remove(Session, "after_commit", unheard)
    with database.read() as session:
        assert session.get_one(ModelVersion, found.model_id).status == "ready"
        assert session.scalars(select(Removal)).all() == []
    assert storage.get(found.artifact)
    database.dispose()


def zeros(num_bytes: int) -> bytes:
    """An archive of a thousandth of that size."""
    tensors = safetensors.numpy.save({"weights": np.zeros(num_bytes, dtype=np.uint8)})
    manifest = encode_manifest({"kind": "facts", "config": {"method": "proofs"}}, tensors)
    return packed(unpack(io.BytesIO(archive()), Settings())[0], {MANIFEST: manifest, TENSORS: tensors})


def test_what_shrinks_too_much_is_refused_before_it_is_unpacked() -> None:
    bomb = io.BytesIO(zeros(20_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(Invalid, match="compressed more than 200 times"):
            unpack(bomb, Settings())
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()
    unpack(io.BytesIO(zeros(1_000_000)), Settings())


def test_an_archive_that_lies_about_its_compression_is_refused() -> None:
    lie = bytearray(zeros(20_000_000))
    entry = lie.rindex(b"PK\x01\x02")  # of the tensors, the last member in the directory
    lie[entry + 20 : entry + 24] = (10_000_000).to_bytes(4, "little")
    with pytest.raises(Invalid, match="larger than the archive itself"):
        unpack(io.BytesIO(bytes(lie)), Settings())


def test_one_archive_at_a_time_is_in_memory() -> None:
    async def both() -> str:
        importing = asyncio.Lock()
        async with alone(importing, 1.0):
            try:
                async with alone(importing, 0.01):
                    return "two at once"
            except TooMany as error:
                refused = error.code
        async with alone(importing, 0.01):
            return refused

    assert asyncio.run(both()) == "too_many_imports"


def test_a_refused_import_keeps_neither_memory_nor_files(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    database, storage = Database(settings.database), folder_store(tmp_path / "artifacts")
    migrate(database.engine)
    found = Import(io.BytesIO(archive()), None, settings)
    found.store(database, storage)
    found.stage(database)
    assert found.files == {}

    def refuse(_: Session) -> CreationReply:
        raise Invalid("bad_archive", "no")

    with pytest.raises(Invalid):
        found.create(database, Once("default", "POST /models/import", None), refuse)
    with database.read() as session:
        assert found.owner in [removal.owner for removal in due(session, 10)]
        assert session.scalars(select(ModelVersion)).all() == []
    database.dispose()


RULES = [
    {
        "head": {"predicate": f"p{number}", "subject": "X", "object": "Y"},
        "body": [{"predicate": "q", "subject": "X", "object": "Y"}],
        "template": "2",
        "confidence": 0.5,
    }
    for number in range(2 * CHUNK_RULES + 1)
]


def test_an_import_of_many_rules_lets_others_write_meanwhile(either_database: Database, tmp_path: Path) -> None:
    database, settings, longest = either_database, Settings(data_dir=tmp_path), [0]

    def count(_: object, __: object, ___: str, parameters: object, ____: object, many: bool) -> None:
        longest[0] = max(longest[0], len(parameters) if many and isinstance(parameters, list) else 0)

    event.listen(database.engine, "before_cursor_execute", count)
    found = Import(io.BytesIO(archive(rules=RULES)), None, settings)
    found.store(database, folder_store(tmp_path / "artifacts"))
    found.stage(database)
    with database.read() as session:
        assert models.listing(session, "default", None, None, None, 10) == [], "nobody sees it yet"
    with database.write() as session:
        model = found.register(session, "default")
        assert (model.name, model.version, model.status) == ("imported", 1, "ready")
    with database.read() as session:
        rules = models.rules(session, model, models.ALL_RULES)
    assert [rule.head for rule in rules] == [rule["head"] for rule in RULES]
    assert longest[0] <= CHUNK_RULES, "rows in one transaction"


def test_what_an_import_that_was_broken_off_has_left_is_swept(sqlite_database: Database, tmp_path: Path) -> None:
    found = Import(io.BytesIO(archive(rules=RULES[:3])), None, Settings(data_dir=tmp_path))
    found.stage(sqlite_database)
    staging.sweep(sqlite_database)
    with sqlite_database.write() as session:
        staging.staged(session, found.model_id).created_at = 0.0
    staging.sweep(sqlite_database)
    with sqlite_database.read() as session:
        assert session.scalars(select(ModelVersion)).all() == []
        assert session.scalars(select(RuleRow)).all() == []


@pytest.mark.parametrize("tags", [{"k" * 65: "v"}, {"k": "v" * 1025}, {str(number): "v" for number in range(33)}])
def test_tags_are_short_wherever_they_come_from(tags: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        TagsIn(tags=tags)
    with pytest.raises(ValidationError):
        TrainRequest(kb="family", tags=tags)
    with pytest.raises(ValidationError):
        archive(tags=tags)


def test_the_card_of_a_model_tells_trials_with_settings_that_have_parts() -> None:
    tried = {"settings": {"templates": {"1": 8, "2": 8}, "loss": "softmax"}, "metric": "mrr"}
    trial = CardTrial.model_validate({**tried, "value": 0.5, "cpu_seconds": 1.0})
    assert trial.settings["templates"] == {"1": 8, "2": 8}
    with pytest.raises(ValidationError):
        CardTrial.model_validate(
            {**tried, "settings": {"templates": {"1": {"2": {}}}}, "value": 0.5, "cpu_seconds": 1.0}
        )
