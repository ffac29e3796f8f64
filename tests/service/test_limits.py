"""Limits, against the started service and on the parts in front of it."""

import asyncio
import json
import socket
import time
from collections.abc import Coroutine, Iterator
from contextlib import closing
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from service.errors import TooSlow
from service.http import limits
from service.http.limits import MAX_REFUSAL_SECONDS, Body, BodyLimit, Bucket, HeldBytes, RateLimit
from service.settings import Settings
from tests.running import RunningService, running_service


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service with small limits."""
    limits = {
        "max_requests_per_second": "5",
        "header_seconds": "1",
        "body_seconds": "1",
        "min_body_bytes_per_second": "100000",
        "max_body_bytes": "100000",
        "max_import_bytes": "300000",
        "max_facts": "10",
        "max_symbols": "8",
        "max_name_length": "20",
        "max_line_bytes": "200",
        "max_decompressed_bytes": "50000",
    }
    with running_service(tmp_path_factory.mktemp("strict"), **limits) as running:
        yield running


def connect(running: RunningService) -> socket.socket:
    host, port = running.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


@pytest.mark.slow
def test_a_head_that_trickles_in_is_cut_off(strict: RunningService) -> None:
    with closing(connect(strict)) as connection:
        began = time.monotonic()
        with pytest.raises(OSError):
            connection.sendall(b"GET /kbs HTTP/1.1\r\n")
            while time.monotonic() - began < 15:
                connection.sendall(b"X-A: b\r\n")
                time.sleep(0.3)
        assert time.monotonic() - began < 10


@pytest.mark.slow
def test_a_connection_that_says_nothing_is_cut_off(strict: RunningService) -> None:
    with closing(connect(strict)) as connection:
        assert connection.recv(1) == b""


@pytest.mark.slow
@pytest.mark.parametrize("head", [b"Content-Length: 50000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"])
def test_a_body_that_trickles_in_is_cut_off(strict: RunningService, head: bytes) -> None:
    host = strict.url.removeprefix("http://").encode()
    start = b"POST /kbs HTTP/1.1\r\nHost: " + host + b"\r\nContent-Type: application/json\r\n" + head
    with closing(connect(strict)) as connection:
        connection.sendall(start)
        began = time.monotonic()
        connection.settimeout(0.3)
        received = b""
        while time.monotonic() - began < 15 and b"\r\n\r\n" not in received:
            connection.sendall(b"1\r\n[\r\n" if b"chunked" in head else b"[")
            try:
                received += connection.recv(4096)
            except TimeoutError:
                continue
        assert received.startswith(b"HTTP/1.1 408")
        assert time.monotonic() - began < 10


@pytest.mark.slow
def test_the_rest_of_a_refused_body_does_not_reset_the_connection(strict: RunningService) -> None:
    """The client of a reset connection may lose the answer that says what to do."""
    host = strict.url.removeprefix("http://").encode()
    head = b"POST /kbs HTTP/1.1\r\nHost: " + host + b"\r\n"
    with closing(connect(strict)) as connection, connection.makefile("rb") as answers:
        connection.sendall(head + b"Content-Length: 1000000\r\n\r\n")
        assert answers.readline().startswith(b"HTTP/1.1 413")
        connection.sendall(bytes(1_000_000) + b"GET /healthz HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
        assert any(b"HTTP/1.1 200 OK" in line for line in iter(answers.readline, b""))


@pytest.mark.slow
def test_the_rest_of_a_refused_body_that_trickles_in_is_cut_off(strict: RunningService) -> None:
    host = strict.url.removeprefix("http://").encode()
    with closing(connect(strict)) as connection:
        connection.sendall(b"POST /kbs HTTP/1.1\r\nHost: " + host + b"\r\nContent-Length: 1000000\r\n\r\n")
        began = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() - began < 15:
                connection.sendall(b"x")
                time.sleep(0.1)
        assert time.monotonic() - began < 10


@pytest.mark.slow
def test_a_chunked_body_over_the_limit_is_refused(strict: RunningService) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="f.tsv"\r\n\r\n'
        for _ in range(30):
            yield b" " * 10_000

    with strict.client() as client:
        answer = client.post("/kbs", content=chunks(), headers={"content-type": "multipart/form-data; boundary=x"})
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    assert "100000" in answer.json()["detail"]


@pytest.mark.slow
@pytest.mark.parametrize("chunked", [False, True])
def test_an_archive_may_be_larger_than_other_bodies_and_has_a_limit_of_its_own(
    strict: RunningService, chunked: bool
) -> None:
    def sent(size: int) -> bytes | Iterator[bytes]:
        return (b" " * 10_000 for _ in range(size // 10_000)) if chunked else b" " * size

    with strict.client() as client:
        time.sleep(0.5)
        zipped = {"content-type": "application/zip"}
        taken = client.post("/models/import", content=sent(200_000), headers=zipped)
        refused = client.post("/models/import", content=sent(400_000), headers=zipped)
    assert (taken.status_code, taken.json()["code"]) == (422, "bad_archive")
    assert (refused.status_code, refused.json()["code"]) == (413, "body_too_large")
    assert "300000 bytes (CTP_MAX_IMPORT_BYTES)" in refused.json()["detail"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        ("".join(f"a\tp{i}\tb\n" for i in range(7)) + "".join(f"b\tp{i}\ta\n" for i in range(7)), 413, "10 facts"),
        ("".join(f"e{i}\tp\te{i}\n" for i in range(9)), 413, "8 entities"),
        ("a" * 21 + "\tp\tb\n", 422, "longer than 20"),
        ("a" * 201 + "\tp\tb\n", 422, "longer than 200 bytes"),
    ],
)
def test_each_limit_is_named_when_it_is_passed(strict: RunningService, content: str, status: int, said: str) -> None:
    with strict.client() as client:
        time.sleep(0.2)
        answer = client.post("/kbs", data={"name": "much"}, files={"file": ("x.tsv", content.encode())})
    assert answer.status_code == status
    assert said in answer.json()["detail"]


@pytest.mark.slow
def test_more_calls_a_second_than_allowed_are_told_when_to_come_back(strict: RunningService) -> None:
    with strict.client() as client:
        answers = [client.get("/kbs/family") for _ in range(200)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        assert {answer.status_code for answer in answers} == {200, 429}
        assert refused[0].json()["code"] == "too_many_requests"
        assert int(refused[0].headers["retry-after"]) >= 1
        assert client.get("/healthz").status_code == 200


def test_a_tenant_that_does_not_wait_after_a_429_gets_the_next_ones_in_turn() -> None:
    """Callers that called again at once kept the process busy with refusing them."""
    now = 0.0

    async def app(*_: object) -> None:
        raise AssertionError("only the time is asked for")

    limit = RateLimit(app, Settings(), clock=lambda: now)
    assert [limit.refusal_seconds("a") for _ in range(50)] == [0.0] * 50
    assert [limit.refusal_seconds("a") for _ in range(3)] == pytest.approx([0.02, 0.04, 0.06])
    assert limit.refusal_seconds("b") == 0.0
    assert all(limit.refusal_seconds("a") <= MAX_REFUSAL_SECONDS for _ in range(1000))
    now = MAX_REFUSAL_SECONDS + 0.1
    assert limit.refusal_seconds("a") == 0.0, "whoever stops calling does not wait for what was refused before"


def test_a_refusal_waits_for_its_turn_after_the_call_has_let_go_of_everything() -> None:
    """Hundreds of refused calls held their bodies, and those of other tenants were refused."""
    order = []

    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 429, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        order.append("let go")

    async def send(message: Message) -> None:
        order.append(message["type"])

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    asyncio.run(RateLimit(app, Settings())({"type": "http", "ctp.tenant": "a"}, receive, send))
    assert order == ["let go", "http.response.start", "http.response.body"]


def test_refusals_that_wait_are_bounded_and_those_beyond_close_their_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each refused call waited for up to four seconds, however many there were."""
    monkeypatch.setattr(limits, "MAX_TENANT_REFUSALS", 3)
    monkeypatch.setattr(limits, "MAX_REFUSALS", 4)
    closed: list[tuple[str, bool]] = []

    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 429, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    async def refused(limit: RateLimit, tenant: str) -> None:
        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                closed.append((tenant, (b"connection", b"close") in message["headers"]))

        await limit({"type": "http", "ctp.tenant": tenant}, receive, send)

    async def crowd() -> None:
        limit = RateLimit(app, Settings())
        monkeypatch.setattr(limit, "refusal_seconds", lambda _: 3600.0)
        calls = [asyncio.ensure_future(refused(limit, tenant)) for tenant in ("a", "a", "a", "a", "b", "b")]
        for _ in range(10):
            await asyncio.sleep(0)
        assert closed == [("a", True), ("b", True)], "the fourth of one tenant, and the fifth of all"
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert not limit.waiting

    asyncio.run(crowd())


def test_a_refused_body_does_not_count_while_its_refusal_is_sent() -> None:
    async def app(_: Scope, receive: Receive, __: Send) -> None:
        await receive()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * 20, "more_body": False}

    limit = BodyLimit(app, Settings(max_json_bytes=10, max_tenant_waiting_bytes=10))
    counted = []

    async def send(_: Message) -> None:
        counted.append((limit.held.by_tenant["a"], limit.held.arrived))

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "path": "/query", "query_string": b"", "headers": headers, "ctp.tenant": "a"}
    asyncio.run(limit(scope, receive, send))
    assert counted == [(0, 0)] * 2


def test_a_body_that_does_not_come_is_told_the_settings_that_bound_it() -> None:
    async def never() -> Message:
        await asyncio.sleep(60)
        raise AssertionError("nobody waits so long")

    settings = Settings(body_seconds=0.01)
    body = Body({"headers": [], "path": "/kbs", "query_string": b""}, never, settings, HeldBytes(settings))
    with pytest.raises(TooSlow, match="CTP_BODY_SECONDS") as caught:
        asyncio.run(body.receive())
    assert caught.value.code == "body_too_slow"


def json_call(
    app: BodyLimit, tenant: str, num_bytes: int, declared: bool = False
) -> Coroutine[Any, Any, dict[str, Any]]:
    """Sends a JSON body in small messages; the answer's status and body."""
    messages = [{"type": "http.request", "body": b" " * 100, "more_body": True}] * (num_bytes // 100 - 1)
    messages.append({"type": "http.request", "body": b" " * 100})
    answer: dict[str, Any] = {}

    async def receive() -> Message:
        return messages.pop()

    async def send(message: Message) -> None:
        answer.update(message)

    scope = {"type": "http", "path": "/query", "query_string": b"", "ctp.tenant": tenant}
    length = [(b"content-length", str(num_bytes).encode())] if declared else []
    scope["headers"] = [(b"content-type", b"application/json"), *length]

    async def call() -> dict[str, Any]:
        messages.reverse()
        await app(scope, receive, send)
        return answer

    return call()


def test_the_bytes_of_bodies_that_wait_are_bounded_for_each_tenant_and_for_the_process() -> None:
    answered = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await answered.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    settings = Settings(max_json_bytes=1000, max_tenant_waiting_bytes=2000, max_waiting_bytes=3000)
    app = BodyLimit(slow, settings)

    async def crowd() -> list[dict[str, Any]]:
        callers = [("a", 1000), ("a", 1000), ("a", 100), ("b", 1000), ("c", 100)]
        waiting = [asyncio.ensure_future(json_call(app, tenant, size)) for tenant, size in callers]
        for _ in range(100):
            await asyncio.sleep(0)
        refused = [task.done() for task in waiting]
        answered.set()
        answers = await asyncio.gather(*waiting)
        assert refused == [answer["body"] != b"{}" for answer in answers]
        return [*answers, await json_call(app, "a", 1000)]

    answers = asyncio.run(crowd())
    refusals = [None if answer["body"] == b"{}" else json.loads(answer["body"]) for answer in answers]
    assert [refusal and refusal["status"] for refusal in refusals] == [None, None, 429, None, 429, None]
    assert refusals[2]["code"] == "too_many_bytes"
    assert "CTP_MAX_TENANT_WAITING_BYTES" in refusals[2]["detail"]
    assert "CTP_MAX_WAITING_BYTES" in refusals[4]["detail"]
    assert not app.held.by_tenant
    assert not app.held.arrived


def test_of_many_large_bodies_at_once_as_many_are_answered_as_a_tenant_may_send() -> None:
    """Were they counted as they arrive, each would get a part of the way, and all would be refused."""
    answered, read = asyncio.Event(), 0

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal read
        while (message := await receive()).get("more_body"):
            read += len(message["body"])
            await asyncio.sleep(0)
        await answered.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    app = BodyLimit(slow, Settings(max_json_bytes=1000, max_tenant_waiting_bytes=2000, max_waiting_bytes=10_000))

    async def crowd() -> list[bool]:
        waiting = [asyncio.ensure_future(json_call(app, "a", 1000, declared=True)) for _ in range(20)]
        for _ in range(100):
            await asyncio.sleep(0)
        answered.set()
        return [answer["body"] == b"{}" for answer in await asyncio.gather(*waiting)]

    assert asyncio.run(crowd()) == [True] * 2 + [False] * 18
    assert read < 2 * 1000, "those that are refused are not read"


def test_a_bucket_fills_again_with_time() -> None:
    bucket = Bucket(rate=2, level=2, filled=0.0)
    assert [bucket.take(0.0) for _ in range(3)] == [0.0, 0.0, 0.5]
    assert bucket.take(0.5) == 0.0
    assert bucket.take(10.0) == 0.0
    assert bucket.level == 1
