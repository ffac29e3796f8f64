"""Archives of models: on their way to a temporary file, unpacked, and registered."""

import asyncio
import io
import json
import os
import stat
import threading
import tracemalloc
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import httpx
import numpy as np
import pytest
import safetensors.numpy
from pydantic import ValidationError
from sqlalchemy import delete, event, func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from ctp_core.errors import ArtifactError
from ctp_core.manifest import MANIFEST, TENSORS, encode_manifest
from ctp_core.rules import quoted
from service.app import create_app
from service.db.engine import Database
from service.db.migrate import migrate
from service.db.tables import ModelVersion, Removal, RuleRow
from service.errors import Conflict, Invalid, storage_problem
from service.files.removals import due
from service.files.storage import Storage, StorageFull
from service.http.idempotency import CreationReply, Once
from service.models import repository as models
from service.models import service, staging
from service.models.archive import CARD, Card, CardTrial, pack, unpack
from service.models.schemas import TagsIn
from service.models.transfer import EXPORTED_RULES, Import, export, exported_rules
from service.models.upload import SPOOL_BYTES, write_pieces
from service.settings import NAME_LIMIT, Settings
from service.training.outcomes import CHUNK_RULES, add_rules
from service.training.schemas import TrainRequest
from tests.service.test_large_bodies import ticks_during
from tests.stores import files_of, folder_store

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
    rules = [rule.model_dump() for rule in card.rules]
    some = [rules[first : first + 100] for first in range(0, len(rules), 100)]
    return b"".join(pack(card, some, {name: (len(content), [content]) for name, content in files.items()}))


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
    (found,) = unpack(io.BytesIO(archive(rules=[rule])), Settings()).rules
    assert json.loads(found)["head"]["object"] == constant


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
    (found,) = unpack(io.BytesIO(archive(rules=rules)), Settings()).rules
    rule = json.loads(found)
    assert (rule["text"], rule["template"]) == ("p(X,Y) :- a(X,Z), b(Z,Z2), c(Z2,Y)", "3")
    assert rule["confidence"] == 0.9


def test_an_archive_whose_rule_is_no_path_is_refused() -> None:
    head = {"predicate": "p", "subject": "X", "object": "Y"}
    body = [atom("a", "X", "Z"), atom("b", "X", "Y")]
    rules = [{"head": head, "body": body, "template": "2", "confidence": 1.0}]
    with pytest.raises(Invalid, match="must be a path"):
        Import(io.BytesIO(archive(rules=rules)), None, Settings())


def atom(predicate: str, subject: str, object_: str) -> dict[str, str]:
    return {"predicate": predicate, "subject": subject, "object": object_}


@pytest.mark.slow
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


@pytest.mark.parametrize("name", [MANIFEST.upper(), f"./{MANIFEST}", f"../{MANIFEST}", "Manifest.json"])
def test_a_member_whose_name_only_resembles_another_is_refused(name: str) -> None:
    file = io.BytesIO(archive())
    with zipfile.ZipFile(file, "a") as zipped:
        zipped.writestr(name, b"{}")
    with pytest.raises(Invalid, match="must hold exactly"):
        unpack(file, Settings())


def test_a_member_that_is_a_link_is_never_followed() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive())) as whole, zipfile.ZipFile(out, "w") as zipped:
        for name in whole.namelist():
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
            zipped.writestr(info, b"/etc/passwd" if name == MANIFEST else whole.read(name))
    with pytest.raises(Invalid, match="is not JSON"):
        unpack(out, Settings())


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


def test_an_archive_with_a_setting_beyond_its_bounds_is_refused_with_its_name() -> None:
    """Models of this service may have such settings from earlier versions; what somebody brings is not trusted."""
    tensors = safetensors.numpy.save({"weights": np.zeros(2)})
    manifest = encode_manifest({"kind": "facts", "config": {"method": "complex", "rank": 10**6}}, tensors)
    large = packed(unpack(io.BytesIO(archive()), Settings())[0], {MANIFEST: manifest, TENSORS: tensors})
    with pytest.raises(Invalid, match=r"config\.rank: Input should be less than or equal to 4096"):
        unpack(io.BytesIO(large), Settings())


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


def test_who_has_no_import_under_way_is_not_refused_for_those_of_others(tmp_path: Path) -> None:
    app = create_app(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1", reply_seconds=0.01))
    migrate(app.state.database.engine)

    async def crowd() -> httpx.Response:
        over = threading.Event()
        waits = partial(over.wait, 30)
        others = [asyncio.ensure_future(app.state.unpacking.run("another", waits)) for _ in range(2)]
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as client:
            headers = {"Content-Type": "application/zip"}
            mine = asyncio.ensure_future(client.post("/models/import", content=b"not a zip", headers=headers))
            assert not (await asyncio.wait([mine], timeout=0.2))[0], "one archive at a time is in memory"
            over.set()
            assert await asyncio.gather(*others) == [True, True]
            return await mine

    answer = asyncio.run(crowd())
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_archive")
    app.state.database.dispose()


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_needs_gigabytes_to_be_unpacked_is_refused(compression: int) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive())) as whole, zipfile.ZipFile(out, "w", compression) as zipped:
        for name in whole.namelist():
            zipped.writestr(name, whole.read(name))
    with pytest.raises(Invalid, match="a member is neither stored nor deflated") as caught:
        unpack(out, Settings())
    assert caught.value.code == "bad_archive"


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
        assert [removal.owner for removal in due(session, 10)] == [found.owner]
        assert len(session.scalars(select(Removal)).all()) == 1, "none is left for later"
        assert session.scalars(select(ModelVersion)).all() == []
    database.dispose()


RULES: list[dict[str, Any]] = [
    {
        "head": {"predicate": f"p{number}", "subject": "X", "object": "Y"},
        "body": [{"predicate": "q", "subject": "X", "object": "Y"}],
        "template": "2",
        "confidence": 0.5,
    }
    for number in range(2 * CHUNK_RULES + 1)
]


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
            service.rules(session, files_of(either_database), "default", model.id, models.ALL_RULES, -1, 10)
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


def test_a_fault_in_a_rule_is_told_with_its_place() -> None:
    content = archive(rules=RULES[:300])
    with zipfile.ZipFile(io.BytesIO(content)) as good:
        files = {name: good.read(name) for name in good.namelist()}
    files[CARD] = files[CARD].replace(b'"p250"', b'""')
    bad = io.BytesIO()
    with zipfile.ZipFile(bad, "w") as zipped:
        for name, stored in files.items():
            zipped.writestr(name, stored)
    with pytest.raises(Invalid, match=r"model.json: rules.250.head.predicate: String should have at least 1 character"):
        unpack(bad, Settings())


def test_a_setting_that_was_tried_may_be_called_rules() -> None:
    trial = {"settings": {"rules": [1, 2]}, "metric": "mrr", "value": 0.5, "cpu_seconds": 1.0}
    found = unpack(io.BytesIO(archive(trials=[trial], rules=RULES[:2])), Settings())
    assert (found.card.trials[0].settings, len(found.rules)) == ({"rules": [1, 2]}, 2)


def test_a_tenant_has_so_many_imports_and_gets_them_back(tmp_path: Path) -> None:
    """One too many is refused before its archive is read."""
    app = create_app(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1"))
    migrate(app.state.database.engine)

    async def crowd() -> list[tuple[int, str]]:
        begun, over = asyncio.Semaphore(0), asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            begun.release()
            await over.wait()
            yield b"not a zip"

        def post(client: httpx.AsyncClient, content: Any) -> "asyncio.Task[httpx.Response]":
            headers = {"Content-Type": "application/zip"}
            return asyncio.ensure_future(client.post("/models/import", content=content, headers=headers))

        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as client:
            held = [post(client, slowly()) for _ in range(2)]
            for _ in held:
                await begun.acquire()
            answers = [await post(client, b"not a zip")]
            over.set()
            answers += [*await asyncio.gather(*held), await post(client, b"not a zip")]
        return [(answer.status_code, answer.json()["code"]) for answer in answers]

    assert asyncio.run(crowd()) == [(429, "too_many_imports"), *[(422, "bad_archive")] * 3]
    app.state.database.dispose()


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
