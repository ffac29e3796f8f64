"""A tenant has one call at a time in the threads that all share: lists of one made the queries of others wait."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Message

from service.app import create_app
from service.errors import TooMany
from service.http import shared_threads
from service.http.problems import add_problem_handlers
from service.http.shared_threads import IN_TURN, SharedThreads
from service.keys.service import DEFAULT_TENANT
from service.settings import Settings


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_each_tenant_has_one_reading_and_one_writing_call_at_a_time_and_the_others_wait_in_turn() -> None:
    async def crowd() -> None:
        threads, working, done = SharedThreads(), list[int](), asyncio.Semaphore(0)

        async def call(number: int, tenant: str, method: str) -> None:
            async with threads.turn(tenant, method):
                working.append(number)
                await done.acquire()

        wanted = [("a", "GET"), ("a", "GET"), ("a", "POST"), ("b", "GET"), ("a", "HEAD")]
        calls = [asyncio.ensure_future(call(number, *one)) for number, one in enumerate(wanted)]
        await turns()
        assert (working, threads.waiting["a", True]) == ([0, 2, 3], 2)
        for _ in wanted:
            done.release()
        await asyncio.gather(*calls)
        assert working == [0, 2, 3, 1, 4]
        assert not threads.waiting

    asyncio.run(crowd())


def test_calls_that_wait_are_bounded_for_each_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_threads, "MOST_WAITING", 2)

    async def crowd() -> None:
        threads, over = SharedThreads(), asyncio.Event()

        async def call(tenant: str) -> None:
            async with threads.turn(tenant, "GET"):
                await over.wait()

        calls = [asyncio.ensure_future(call("a")) for _ in range(3)]
        await turns()
        with pytest.raises(TooMany) as caught:
            await call("a")
        assert caught.value.code == "too_many_calls"
        calls.append(asyncio.ensure_future(call("b")))
        over.set()
        await asyncio.gather(*calls)

    asyncio.run(crowd())


@pytest.fixture
def held() -> Iterator[tuple[FastAPI, threading.Event, list[str]]]:
    """An app with a list that takes until the event is set, and what was listed."""
    app, may_end, listed = FastAPI(), threading.Event(), list[str]()
    add_problem_handlers(app)
    app.state.shared_threads = SharedThreads()

    @app.get("/list/{name}", dependencies=[IN_TURN])
    def show(name: str) -> str:
        listed.append(name)
        assert may_end.wait(30)
        return name

    yield app, may_end, listed
    may_end.set()


def test_a_list_whose_caller_has_gone_before_its_turn_is_not_made(
    held: tuple[FastAPI, threading.Event, list[str]],
) -> None:
    app, may_end, listed = held
    answers: dict[str, bytes] = {}

    async def call(name: str, gone: bool) -> None:
        async def receive() -> Message:
            if gone:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": b""}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                answers[name] = message["body"]

        head = {"type": "http", "method": "GET", "headers": [], "query_string": b"", "ctp.tenant": "a"}
        scope = {**head, "path": f"/list/{name}", "raw_path": f"/list/{name}".encode(), "root_path": ""}
        await app(scope, receive, send)

    async def crowd() -> None:
        calls = [asyncio.ensure_future(call(name, name == "gone")) for name in ("first", "gone", "last")]
        while app.state.shared_threads.waiting["a", True] < 2:
            await asyncio.sleep(0.01)
        may_end.set()
        await asyncio.gather(*calls)

    asyncio.run(crowd())
    assert listed == ["first", "last"]
    assert (answers["first"], answers["last"]) == (b'"first"', b'"last"')
    assert json.loads(answers["gone"])["code"] == "caller_gone"


@pytest.mark.usefixtures("sqlite_database")
def test_every_list_takes_its_turn(tmp_path: Path) -> None:
    taken: list[str] = []

    class Noting(SharedThreads):
        @asynccontextmanager
        async def turn(self, tenant: str, method: str) -> AsyncIterator[None]:
            taken.append(method)
            yield

    app = create_app(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1"))
    app.state.shared_threads = Noting()

    async def read() -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            return [(await client.get(path)).status_code for path in ("/formats", "/kbs", "/models", "/jobs")]

    assert asyncio.run(read()) == [200] * 4
    assert taken == ["GET"] * 4
    app.state.database.dispose()


@pytest.mark.usefixtures("sqlite_database")
@pytest.mark.parametrize(
    ("path", "body"), [("/train", {"kb": "missing"}), ("/evaluations", {"model": "missing", "split": "test"})]
)
def test_an_order_waits_for_the_turn_of_its_tenant(tmp_path: Path, path: str, body: dict[str, str]) -> None:
    """Hundreds of orders at once took all threads that everybody's orders need."""
    app = create_app(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1"))
    threads: SharedThreads = app.state.shared_threads

    async def order() -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            async with threads.turn(DEFAULT_TENANT, "POST"):
                ordered = asyncio.ensure_future(client.post(path, json=body))
                while not (threads.waiting[DEFAULT_TENANT, False] or ordered.done()):
                    await asyncio.sleep(0.01)
                assert not ordered.done()
            return (await ordered).status_code

    assert asyncio.run(order()) == 404
    app.state.database.dispose()
