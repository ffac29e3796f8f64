"""Answers that are not read yet are bounded for each tenant, and for all."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from service.http.unread import PIECE_BYTES, UnreadLimit
from service.settings import Settings

LARGE = 3 * PIECE_BYTES + 1


class Answering:
    """An app whose answers are large; `over` has the tenants whose calls have let go of what they held."""

    def __init__(self) -> None:
        self.over: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * scope["size"]})
        self.over.append(scope["ctp.tenant"])


class Reader:
    """A caller that reads nothing until `reads` is set."""

    def __init__(self) -> None:
        self.reads, self.status, self.pieces = asyncio.Event(), 0, list[bytes]()

    def call(self, app: UnreadLimit, tenant: str, size: int = LARGE) -> Coroutine[Any, Any, None]:
        async def receive() -> Message:
            raise AssertionError("nothing is read")

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                return
            self.pieces.append(message["body"])
            if self.status == 200:
                await self.reads.wait()

        return app({"type": "http", "ctp.tenant": tenant, "size": size}, receive, send)


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_tenant_that_does_not_read_its_answers_is_refused_more_until_it_does() -> None:
    async def crowd() -> None:
        answering = Answering()
        app = UnreadLimit(answering, Settings(max_tenant_unread_bytes=2 * LARGE, max_unread_bytes=3 * LARGE))
        readers = [Reader() for _ in range(5)]
        calls = [
            asyncio.ensure_future(reader.call(app, tenant))
            for reader, tenant in zip(readers, ("a", "a", "a", "b", "c"), strict=True)
        ]
        await turns()
        assert [reader.status for reader in readers] == [200, 200, 429, 200, 429]
        told = [json.loads(b"".join(reader.pieces)) for reader in readers if reader.status == 429]
        assert [problem["code"] for problem in told] == ["too_many_unread_bytes"] * 2
        assert ["CTP_MAX_TENANT_UNREAD_BYTES" in told[0]["detail"], "CTP_MAX_UNREAD_BYTES" in told[1]["detail"]] == [
            True
        ] * 2
        assert answering.over == ["a", "a", "a", "b", "c"], "what is unread holds no body and no place"
        for reader in readers:
            reader.reads.set()
        await asyncio.gather(*calls)
        assert [len(b"".join(reader.pieces)) for reader in readers if reader.status == 200] == [LARGE] * 3
        assert not app.unread.by_tenant

    asyncio.run(crowd())


def test_an_answer_is_sent_in_pieces_as_fast_as_it_is_read_however_large_it_is() -> None:
    async def read() -> None:
        app = UnreadLimit(Answering(), Settings(max_tenant_unread_bytes=1, max_unread_bytes=1))
        reader = Reader()
        call = asyncio.ensure_future(reader.call(app, "a"))
        await turns()
        assert [len(piece) for piece in reader.pieces] == [PIECE_BYTES]
        reader.reads.set()
        await call
        assert [len(piece) for piece in reader.pieces] == [PIECE_BYTES] * 3 + [1]

    asyncio.run(read())


def test_a_small_answer_is_not_held_back() -> None:
    async def read() -> None:
        app = UnreadLimit(Answering(), Settings())
        reader = Reader()
        reader.reads.set()
        await reader.call(app, "a", 10)
        assert (reader.status, reader.pieces) == (200, [b"x" * 10])
        assert not app.unread.by_tenant

    asyncio.run(read())
