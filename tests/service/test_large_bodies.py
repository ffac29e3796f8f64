"""Large JSON bodies: parsed beside the other calls, refused as soon as it is clear that they are too large."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message

from service.errors import Invalid, PayloadTooLarge
from service.http.bodies import LARGE_BYTES, parse_json, read_json
from service.http.pieces import FACTS
from service.http.turns import Turns
from service.kbs.schemas import KbCreate
from service.queries.schemas import QueryRequest
from service.training.schemas import TrainRequest

FACT = b'["a","p","b"]'
QUERY = b'{"model":"m","goal":{"subject":"a","predicate":"p"},"facts":['


def kb(*facts: bytes) -> bytes:
    return b'{"facts":[%b],"name":"large"}' % b",".join(facts)


async def ticks_during(work: Coroutine[Any, Any, Any]) -> tuple[int, Any]:
    """Returns how often another call could have been answered while the work ran."""
    task, ticks = asyncio.ensure_future(work), 0
    while not task.done():
        await asyncio.sleep(0.001)
        ticks += 1
    return ticks, (await asyncio.gather(task, return_exceptions=True))[0]


def request(body: bytes) -> Request:
    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    return Request({"type": "http", "headers": [(b"content-type", b"application/json")]}, receive)


@pytest.mark.slow
def test_others_are_answered_while_a_large_kb_is_parsed() -> None:
    ticks, parsed = asyncio.run(ticks_during(read_json(request(kb(*[FACT] * 300_000)), KbCreate)))
    assert len(parsed.facts) == 300_000
    assert ticks > 30


def test_facts_beyond_the_limit_are_not_parsed() -> None:
    body = QUERY + b",".join([FACT] * 20_000) + b", this is not JSON"
    with pytest.raises(PayloadTooLarge, match="CTP_MAX_QUERY_FACTS") as refused:
        asyncio.run(parse_json(QueryRequest, body, 10_000))
    assert refused.value.code == "too_many_facts"


def test_a_large_body_says_the_same_as_a_small_one() -> None:
    names = ['a "quoted" ], [ name', "\\", "\u00e9 \U0001f600", "tab\t"]
    for copies in (1, LARGE_BYTES // 20):
        sent = {"name": "n", "facts": [[name, "p", name] for name in names] * copies}
        for ascii_only in (True, False):
            body = _encoded(sent, ascii_only)
            parsed = asyncio.run(parse_json(KbCreate, body))
            assert (parsed.name, parsed.facts[: len(names)]) == ("n", [(name, "p", name) for name in names])
            assert len(parsed.facts) == len(names) * copies


def _encoded(value: Any, ascii_only: bool) -> bytes:
    return json.dumps(value, ensure_ascii=ascii_only, indent=1).encode()


MANY = [FACT] * (3 * FACTS.per_piece + LARGE_BYTES // len(FACT))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda: kb(*MANY, b'["a","p"]'), f"facts.{len(MANY)}.2: Field required"),
        (lambda: kb(*MANY, b"7"), f"facts.{len(MANY)}: this should be an array"),
        (lambda: kb(*MANY, b"[[[1]]]"), f"facts.{len(MANY)}: this should be an array"),
        (lambda: kb(*MANY) + b"}", "Invalid JSON"),
        (
            lambda: kb(*MANY)[:-20],
            f"facts.{len(MANY) - 1}: this should be an array [subject, predicate, object], or the end",
        ),
        (lambda: kb(*MANY).replace(b'"name"', b'"nome"'), "name: Field required"),
        (lambda: kb(b"[%b]" % b",".join([b"1"] * 100_000)), "facts.0: this should be an array"),
    ],
)
def test_a_fault_in_a_large_body_is_told_with_its_place(spoil: Callable[[], bytes], said: str) -> None:
    with pytest.raises(Invalid) as refused:
        asyncio.run(parse_json(KbCreate, spoil()))
    assert said in refused.value.detail


def test_only_facts_may_be_large() -> None:
    goals = b'{"model":"m","goals":[%b]}' % b",".join([b"{}"] * 500_000)
    with pytest.raises(PayloadTooLarge, match="without its `facts`"):
        asyncio.run(parse_json(QueryRequest, goals))


def test_a_large_body_without_facts_is_parsed_as_a_whole() -> None:
    body = b'{"kb":"k","tags":{"facts":[1]},"x":"%b"}' % (b"x" * LARGE_BYTES)
    with pytest.raises(Invalid, match="there is no such key"):
        asyncio.run(parse_json(TrainRequest, body))


def test_large_bodies_of_one_tenant_keep_no_other_waiting() -> None:
    """A tenant has one of the two threads, however many bodies it sends."""
    turns, over = Turns(2, "parse"), threading.Event()

    async def crowd() -> str:
        busy = [asyncio.ensure_future(turns.run("a", partial(over.wait, 30))) for _ in range(5)]
        try:
            await asyncio.sleep(0)
            async with asyncio.timeout(10):
                return await turns.run("b", lambda: "not starved")
        finally:
            over.set()
            await asyncio.gather(*busy)

    assert asyncio.run(crowd()) == "not starved"
    turns.stop()


def test_a_caller_that_goes_away_keeps_its_turn_until_its_work_is_done() -> None:
    turns, over, began = Turns(2, "parse"), threading.Event(), threading.Event()

    async def leave() -> bool:
        first = asyncio.ensure_future(turns.run("a", partial(over.wait, 30)))
        await asyncio.sleep(0)
        first.cancel()
        second = asyncio.ensure_future(turns.run("a", began.set))
        await asyncio.wait([first])
        await turns.run("b", lambda: None)  # the other thread is free, but it is not for the same tenant
        too_early = began.is_set()
        over.set()
        await second
        return too_early

    assert not asyncio.run(leave())
    assert began.is_set()
    turns.stop()


def test_in_one_thread_tenants_are_served_in_turn() -> None:
    turns, over, served = Turns(1, "publish"), threading.Event(), list[str]()

    async def crowd() -> None:
        first = asyncio.ensure_future(turns.run("a", partial(over.wait, 30)))
        await asyncio.sleep(0)
        others = [asyncio.ensure_future(turns.run(who, partial(served.append, who))) for who in "aaaab"]
        await asyncio.sleep(0)
        over.set()
        await asyncio.gather(first, *others)

    asyncio.run(crowd())
    assert served.index("b") <= 1
    turns.stop()
