"""Exports are sent while they are read, and a tenant may have a few under way."""

import asyncio
import io
import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import delete
from starlette.types import Message

from ctp_core.errors import ArtifactError
from ctp_core.kb.facts_builder import KbLimits
from ctp_core.kb.formats.registry import FORMATS
from ctp_core.kb.formats.rows import FileLimits
from ctp_core.kb.graphs_builder import GraphsBuilder
from ctp_core.manifest import MANIFEST, TENSORS, encode_manifest
from service.app import create_app
from service.db.engine import Database
from service.db.migrate import migrate
from service.db.tables import GraphRow, Kb, ModelVersion
from service.kbs import service as kbs
from service.kbs.service import EXPORT_LINES
from service.settings import MIB, Settings
from tests.built_kbs import built
from tests.stores import files_of, folder_store

SIZE = 24 * MIB


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    """With a model of incompressible weights and a KB."""
    app = create_app(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1"))
    migrate(app.state.database.engine)
    storage = folder_store(tmp_path / "artifacts")
    tensors = os.urandom(SIZE)
    files = {TENSORS: tensors, MANIFEST: encode_manifest({"kind": "facts"}, tensors)}
    model = ModelVersion(
        id="model_1",
        tenant="default",
        name="large",
        version=1,
        status="ready",
        kind="facts",
        method="rules",
        config={},
        metrics={},
        tags={},
        trials=[],
        kb_sha256="0" * 64,
        code_version="1",
        artifact=storage.put("models/model_1/x", files),
    )
    with app.state.database.write() as session:
        session.add(model)
    kbs.create(app.state.database, files_of(app.state.database), "default", "small", built([("a", "p", "b")]))
    yield app
    app.state.database.dispose()


class Reader:
    """A caller that downloads a path, and reads only while it is let."""

    def __init__(self, path: str) -> None:
        self.path, self.status, self.num_bytes, self.problem, self.asked = path, 0, 0, b"", False
        self.reads = asyncio.Event()
        self.begun = asyncio.Event()

    async def receive(self) -> Message:
        if not self.asked:  # its body, which is empty: one that never ends would be cut off on a slow machine
            self.asked = True
            return {"type": "http.request", "body": b""}
        await asyncio.Event().wait()
        raise AssertionError("nobody sends this")

    async def send(self, message: Message) -> None:
        self.begun.set()
        self.status = message.get("status", self.status)
        if self.status == 200:
            await self.reads.wait()
        else:
            self.problem = message.get("body", b"")
        self.num_bytes += len(message.get("body", b""))

    async def download(self, app: FastAPI) -> "Reader":
        headers = [(b"host", b"127.0.0.1")]
        scope = {"type": "http", "method": "GET", "path": self.path, "query_string": b"", "headers": headers}
        await app({**scope, "raw_path": self.path.encode(), "server": ("127.0.0.1", 80)}, self.receive, self.send)
        return self


@pytest.mark.slow
def test_an_export_takes_little_memory_however_large_the_model_is(app: FastAPI) -> None:
    async def download() -> Reader:
        reader = Reader("/models/large/export")
        reader.reads.set()
        return await reader.download(app)

    tracemalloc.start()
    try:
        reader = asyncio.run(download())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (reader.status, reader.num_bytes > SIZE) == (200, True), reader.problem
    assert peak < SIZE / 2


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/models/large/export", "/kbs/small/export"])
def test_a_tenant_has_so_many_downloads_and_gets_them_back(app: FastAPI, path: str) -> None:
    async def crowd() -> list[Reader]:
        readers = [Reader(path) for _ in range(3)]
        tasks = [asyncio.ensure_future(reader.download(app)) for reader in readers]
        await asyncio.gather(*(reader.begun.wait() for reader in readers))
        for reader in readers:
            reader.reads.set()
        await asyncio.gather(*tasks)
        last = Reader("/models/missing/export")
        await last.download(app)  # what is refused for another reason holds no place
        again = Reader(path)
        again.reads.set()
        return [*readers, last, await again.download(app)]

    readers = asyncio.run(crowd())
    assert sorted(reader.status for reader in readers[:3]) == [200, 200, 429]
    refused = json.loads(next(reader.problem for reader in readers if reader.status == 429))
    assert refused["code"] == "too_many_downloads"
    assert "CTP_MAX_DOWNLOADS" in refused["detail"]
    assert [reader.status for reader in readers[3:]] == [404, 200]


def story(number: int) -> dict[str, Any]:
    """A graph of one to three facts."""
    facts = [[f"a{number}", f"p{fact}", "b"] for fact in range(1 + number % 3)]
    return {"facts": facts, "subject": f"a{number}", "object": "b", "label": "q"}


@pytest.fixture
def stories(sqlite_database: Database) -> Kb:
    """A KB of more graphs than one piece of an export has lines, in two splits."""
    builder = GraphsBuilder(KbLimits())
    for split, numbers in {"train": range(EXPORT_LINES + 1), "test": range(5)}.items():
        content = io.BytesIO("\n".join(json.dumps(story(number)) for number in numbers).encode())
        builder.add(split, FORMATS["graphs"].read(content, split, FileLimits()), split)
    return kbs.create(sqlite_database, files_of(sqlite_database), "default", "stories", builder.build())[0]


def export(database: Database, format_name: str, split: str | None) -> Iterator[bytes]:
    return kbs.export(database, files_of(database), kbs.rows_of(database, "default", "stories"), format_name, split)


@pytest.mark.slow
@pytest.mark.parametrize(("split", "numbers"), [("test", [range(5)]), (None, [range(EXPORT_LINES + 1), range(5)])])
def test_graphs_are_exported_as_they_were_uploaded(
    sqlite_database: Database, stories: Kb, split: str | None, numbers: list[range]
) -> None:
    lines = b"".join(export(sqlite_database, "graphs", split)).splitlines()
    assert list(map(json.loads, lines)) == [story(number) for some in numbers for number in some]


def test_graphs_are_read_while_they_are_exported_and_never_cut_short(sqlite_database: Database, stories: Kb) -> None:
    content = export(sqlite_database, "graphs", None)
    next(content)
    with sqlite_database.write() as session:
        session.execute(delete(GraphRow).where(GraphRow.number >= EXPORT_LINES))
    with pytest.raises(ArtifactError, match="deleted while it was being read"):
        list(content)
