"""A tenant has a few costly calls under way, and these never take all threads."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.app import create_app
from service.db.migrate import migrate
from service.files.store_owner import adopt
from service.http.places import Places
from service.settings import Settings

BOUNDARY = "limit"
FORM = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="name"\r\n\r\nsmall\r\n'
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="x.tsv"\r\n\r\na\tp\tb\n\r\n'
    f"--{BOUNDARY}--\r\n"
).encode()


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (f"multipart/form-data; boundary={BOUNDARY}", FORM),
        ("application/json", b'{"name": "small", "facts": [["a", "p", "b"]]}'),
    ],
)
def test_a_tenant_has_so_many_uploads_and_gets_them_back(tmp_path: Path, content_type: str, body: bytes) -> None:
    """One too many is refused before its body is read."""
    app = create_app(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1"))
    migrate(app.state.database.engine)
    adopt(app.state.database, app.state.storage)

    async def crowd() -> list[httpx.Response]:
        begun, over = asyncio.Semaphore(0), asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            begun.release()
            await over.wait()
            yield body

        def post(client: httpx.AsyncClient, content: Any) -> "asyncio.Task[httpx.Response]":
            headers = {"Content-Type": content_type}
            return asyncio.ensure_future(client.post("/kbs", content=content, headers=headers))

        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as client:
            held = [post(client, slowly()) for _ in range(2)]
            for _ in held:
                await begun.acquire()
            refused = await post(client, body)
            over.set()
            return [refused, *await asyncio.gather(*held), await post(client, body)]

    refused, *loaded = asyncio.run(crowd())
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_uploads")
    assert "CTP_MAX_UPLOADS" in refused.json()["detail"]
    assert sorted(answer.status_code for answer in loaded) == [200, 200, 201]
    app.state.database.dispose()


def test_the_calls_of_one_tenant_leave_a_thread_for_another() -> None:
    places = Places(10, 2, "too_many_examples", "wait")

    async def crowd() -> str:
        over = threading.Event()
        held = [asyncio.ensure_future(places.run("a", lambda: over.wait(30))) for _ in range(3)]
        await asyncio.sleep(0)
        answer = await places.run("b", lambda: "done")
        over.set()
        assert await asyncio.gather(*held) == [True] * 3
        return answer

    assert asyncio.run(crowd()) == "done"
    places.stop()
