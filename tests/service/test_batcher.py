"""The batcher of an API process against a real queue and worker, with things in the queue that nobody expects."""

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from ctp_core.symbols import Fact
from service.errors import ServiceError, TooMany, Unavailable
from service.local.cluster import Cluster
from service.models.comparison import comparing
from service.models.contest import Asking, ContestQuestion, Prepared, hold
from service.models.probe import PROBE
from service.models.schemas import Contest
from service.queries.batcher import MAX_BATCH, TENANT_UNDER_WAY, UNDER_WAY, Asked, Batcher, Target, apart, next_batch
from service.queries.wire import LARGE_FACTS, Reply, encode_facts, facts_key, waits_key
from service.queue import QUERY_QUEUE, alive_key
from service.settings import Settings
from worker.query_children import ANSWER_SHARE, QueryChildren

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
NOBODY = Target("default", "model_none", f"models/none/{'0' * 64}")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with Cluster(tmp_path_factory.mktemp("b")) as cluster:
        cluster.start("query")
        yield Settings(data_dir=cluster.folder, redis_url=cluster.redis_url, reply_seconds=60)


def test_a_message_that_is_none_of_ours_stops_nobody(settings: Settings) -> None:
    async def ask() -> list[object]:
        batcher = Batcher(settings)
        await batcher.start()
        await batcher.redis.rpush(batcher.reply_key, b"no message", b'{"batch_id": "x"}', b"\xff\n")
        try:
            return list(await batcher.ask(NOBODY, [PROBE], ""))
        finally:
            await batcher.stop()

    (reply,) = asyncio.run(ask())
    assert isinstance(reply, dict)
    assert reply["code"] == "bad_artifact"


def test_many_facts_lie_beside_the_queue_until_they_are_answered(settings: Settings) -> None:
    """A message with megabytes of them would hold up the messages of everybody else."""
    facts = [(f"entity {number}", "p", "\u2028 and \n") for number in range(LARGE_FACTS + 1)]

    async def ask() -> tuple[list[object], list[bytes]]:
        batcher = Batcher(settings)
        await batcher.start()
        try:
            replies = list(await batcher.ask(NOBODY, [PROBE | {"facts": facts}], ""))
            return replies, [key async for key in batcher.redis.scan_iter(match=facts_key("*"))]
        finally:
            await batcher.stop()

    (reply,), left = asyncio.run(ask())
    assert isinstance(reply, dict)
    assert (reply["code"], left) == ("bad_artifact", [])
    assert [[tuple(fact) for fact in one] for one in json.loads(encode_facts([facts, [], facts[:1]]))] == [
        facts,
        [],
        facts[:1],
    ]


@pytest.mark.parametrize("hours", [-1, 1])
def test_an_api_whose_clock_is_wrong_is_answered(settings: Settings, hours: int) -> None:
    async def ask() -> list[object]:
        batcher = Batcher(settings.model_copy(update={"reply_seconds": 20.0}))
        batcher.celery.now = lambda: datetime.now(UTC) + timedelta(hours=hours)  # type: ignore[method-assign]
        await batcher.start()
        try:
            return list(await batcher.ask(NOBODY, [PROBE], ""))
        finally:
            await batcher.stop()

    (reply,) = asyncio.run(ask())
    assert isinstance(reply, dict)
    assert reply["code"] == "bad_artifact"


def test_a_batch_is_answered_only_while_somebody_waits_for_it(settings: Settings) -> None:
    children = QueryChildren(settings)  # none of which is started: whoever is asked for waits a moment in vain
    shared = {"reply_to": "ctp:replies:test", "batch_id": "b", "waits": waits_key("b")}
    message = {**shared, **asdict(NOBODY), "questions": [PROBE], "facts": [[]], "request_ids": ["r"], "seconds": 1.0}
    children.answer(message)
    assert not children.redis.exists(message["reply_to"])
    children.redis.set(message["waits"], b"", px=1000)
    children.answer(message)
    assert children.redis.llen(message["reply_to"]) == 1
    assert not children.redis.exists(message["waits"])
    children.redis.delete(message["reply_to"])


def test_what_a_batch_has_waited_in_the_queue_is_taken_from_its_time(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that began when its sender was about to give up ran for its whole time."""
    children = QueryChildren(settings)
    left: list[float] = []

    def replies(_: object, ends: float) -> tuple[list[Reply], Counter[str]]:
        left.append(ends - time.monotonic())
        return [b"x"], Counter()

    monkeypatch.setattr(children, "_replies", replies)
    message = {"reply_to": "ctp:replies:late", "batch_id": "late", "waits": waits_key("late"), "request_ids": ["r"]}
    children.redis.set(message["waits"], b"", px=10_000)  # of the 60 s in the settings
    children.answer(message)
    children.redis.delete(message["reply_to"])
    assert 0 < left[0] <= ANSWER_SHARE * 10


def test_what_a_question_has_waited_in_its_lane_is_taken_from_its_time(alone: Settings) -> None:
    given: list[float] = []

    class Timed(Batcher):
        async def _send_once(self, message: dict[str, Any], seconds: float) -> list[Reply]:
            given.append(seconds)
            return [b"x"] * len(message["questions"])

    async def ask() -> None:
        batcher = Timed(alone)
        future = asyncio.get_running_loop().create_future
        asked = [Asked(PROBE, "", future(), time.monotonic() - waited) for waited in (12.0, 7.0)]
        await batcher._send(NOBODY, asked)
        await batcher.stop()

    asyncio.run(ask())
    assert 0 < given[0] <= alone.reply_seconds - 7.0, "somebody waits for as long as the last one"


def test_a_strange_name_does_not_blind_the_watch_over_workers(settings: Settings) -> None:
    async def look() -> frozenset[str]:
        batcher = Batcher(settings)
        strange, late = alive_key(QUERY_QUEUE, "").encode() + b"\xff", alive_key(QUERY_QUEUE, "late")
        await batcher.redis.set(strange, b"1")
        await batcher.start()
        await asyncio.sleep(1)  # the watch meets it once or more
        await batcher.redis.delete(strange)
        await batcher.redis.set(late, b"1", ex=60)
        try:
            async with asyncio.timeout(30):
                while late not in batcher.workers:
                    await asyncio.sleep(0.05)
            return batcher.workers
        finally:
            await batcher.redis.delete(late)
            await batcher.stop()

    assert alive_key(QUERY_QUEUE, "late") in asyncio.run(look())


@pytest.fixture
def alone(tmp_path: Path) -> Settings:
    """Of a process whose Redis is away."""
    return Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1", max_waiting_queries=200)


def test_who_waits_when_the_process_stops_is_told(alone: Settings) -> None:
    async def ask() -> list[BaseException | list[Reply]]:
        batcher = Batcher(alone)
        batcher.lanes[NOBODY].senders = UNDER_WAY  # its lane is busy
        waiting = asyncio.ensure_future(batcher.ask(NOBODY, [PROBE] * 200, ""))
        await asyncio.sleep(0)
        await batcher.stop()
        return await asyncio.gather(waiting, return_exceptions=True)

    (outcome,) = asyncio.run(ask())
    assert isinstance(outcome, Unavailable)
    assert outcome.code == "stopping"


def test_a_loop_that_misses_its_cancellation_does_not_keep_the_process_from_stopping(alone: Settings) -> None:
    async def deaf_once() -> None:
        with suppress(asyncio.CancelledError):  # as `asyncio.wait_for` of Python 3.11, where its own call is done
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    async def stop() -> bool:
        batcher = Batcher(alone)
        task = batcher._spawn(deaf_once())
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await batcher.stop()
        return task.cancelled()

    assert asyncio.run(stop())


def test_a_loop_that_no_cancellation_ends_is_named_and_left(alone: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.queries.batcher.MAX_CANCELLATIONS", 3)
    released = asyncio.Event()

    async def deaf() -> None:
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()

    async def stop() -> bool:
        batcher = Batcher(alone)
        task = batcher._spawn(deaf())
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await batcher.stop()
        left = not task.done()
        released.set()
        await task
        return left

    monkeypatch.setattr(
        "service.queries.batcher.log", structlog.get_logger()
    )  # one that was used before is not captured
    with capture_logs() as logs:
        assert asyncio.run(stop())
    [error] = [entry for entry in logs if entry["event"] == "tasks_do_not_end"]
    assert "deaf" in error["tasks"][0]


def test_a_tenant_whose_questions_wait_leaves_room_for_others(alone: Settings) -> None:
    async def ask() -> list[str]:
        batcher = Batcher(alone)
        batcher.waiting["a"] = alone.max_waiting_queries
        codes = []
        for tenant in ("a", "b"):
            with pytest.raises((TooMany, Unavailable)) as caught:
                await batcher.ask(Target(tenant, "model_1", "x"), [PROBE], "")
            codes.append(caught.value.code)
        assert batcher.waiting == {"a": alone.max_waiting_queries}
        await batcher.stop()
        return codes

    assert asyncio.run(ask()) == ["too_many_queries", "queue_down"]


@pytest.mark.parametrize(
    ("questions", "error", "code"), [(200, Unavailable, "queue_down"), (201, TooMany, "too_many_queries")]
)
def test_questions_that_cannot_be_sent_or_kept_are_refused(
    alone: Settings, questions: int, error: type[ServiceError], code: str
) -> None:
    async def ask() -> None:
        batcher = Batcher(alone)
        try:
            await batcher.ask(NOBODY, [PROBE] * questions, "")
        finally:
            await batcher.stop()

    with pytest.raises(error) as caught:
        asyncio.run(ask())
    assert caught.value.code == code


def test_a_worker_that_answers_too_little_costs_its_callers_a_try(settings: Settings) -> None:
    async def ask() -> None:
        batcher = Batcher(settings)
        asked = asyncio.ensure_future(batcher.ask(NOBODY, [PROBE], ""))
        async with asyncio.timeout(30):
            while not batcher.under_way:
                await asyncio.sleep(0)
        (batch,) = batcher.under_way.values()
        batch.future.set_result([])
        try:
            await asked
        finally:
            await batcher.stop()

    with pytest.raises(Unavailable) as caught:
        asyncio.run(ask())
    assert caught.value.code == "query_lost"


def test_a_comparison_tells_models_that_fail_from_models_that_err(settings: Settings) -> None:
    question = ContestQuestion("p", ("a", "p", None), (), Fact("a", "p", "b"))

    async def compare() -> tuple[Contest | None, str | None]:
        batcher, threads = Batcher(settings), comparing(1)
        await batcher.start()
        try:
            return await hold(Prepared("test", (question,)), [NOBODY, NOBODY], Asking(batcher, threads, ""), 20)
        finally:
            await batcher.stop()
            threads.stop()

    contest, note = asyncio.run(compare())
    assert contest is None
    assert note is not None
    assert note.startswith("model_none did not answer: the files 'models/none/")


def test_facts_that_many_goals_share_travel_once() -> None:
    facts, others = [("a", "p", "b")], [("a", "p", "c")]
    questions = [{"goal": [None, "p", name], "facts": facts} for name in "xyz"] + [{"goal": [], "facts": others}]
    numbered, lists = apart(questions)
    assert lists == [facts, others]
    assert [question["facts"] for question in numbered] == [0, 0, 0, 1]
    assert [question["goal"] for question in numbered] == [question["goal"] for question in questions]


def test_a_message_has_a_bounded_number_of_bytes() -> None:
    async def sizes() -> list[int]:
        loop = asyncio.get_running_loop()
        large = [[("x" * 500, "p", "y" * 500)] * 3000 for _ in range(3)]  # 3 MB each
        lists = [large[0], large[0], large[1], [], large[2], *[[]] * (MAX_BATCH + 5)]
        lane = deque(Asked(PROBE | {"facts": facts}, "", loop.create_future()) for facts in lists)
        found = []
        while lane:
            found.append(len(next_batch(lane)))
        return found

    assert asyncio.run(sizes()) == [2, 2, MAX_BATCH, 6]


def test_a_batch_has_a_bounded_number_of_results() -> None:
    """Twenty thousand trees of long names are hundreds of megabytes, which one message must not have."""

    async def sizes() -> list[int]:
        loop = asyncio.get_running_loop()
        wanted = [(1000, 1), (1000, 1), (500, 1), (5000, 3), (10, 0), (10, 3)]
        lane = deque(
            Asked(PROBE | {"top_k": top_k, "proofs": proofs}, "", loop.create_future()) for top_k, proofs in wanted
        )
        found = []
        while lane:
            found.append(len(next_batch(lane)))
        return found

    assert asyncio.run(sizes()) == [3, 1, 2]


def test_a_logical_question_travels_alone() -> None:
    """It may take all the time of a message, for which others would wait."""

    async def sizes() -> list[int]:
        loop = asyncio.get_running_loop()
        logical = PROBE | {"where": ["p(?x, b)"], "num_atoms": 1}
        kinds = [PROBE, PROBE, logical, logical, PROBE, PROBE]
        lane = deque(Asked(question, "", loop.create_future()) for question in kinds)
        found = []
        while lane:
            found.append(len(next_batch(lane)))
        return found

    assert asyncio.run(sizes()) == [2, 1, 1, 2]


def test_a_loop_that_has_ended_is_told(alone: Settings) -> None:
    async def look() -> list[bool]:
        batcher = Batcher(alone)
        await batcher.start()
        listened = [batcher.listens]
        batcher.loops[1].cancel()
        await asyncio.wait([batcher.loops[1]])
        listened.append(batcher.listens)
        await batcher.stop()
        return listened

    assert asyncio.run(look()) == [True, False]


class Held(Batcher):
    """Sends batches to nobody: each is under way until it is let go."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.sent: list[tuple[Target, list[Asked]]] = []
        self.let_go = asyncio.Semaphore(0)

    async def _send(self, target: Target, batch: list[Asked]) -> list[Reply]:
        self.sent.append((target, batch))
        await self.let_go.acquire()
        return [b""] * len(batch)


def test_a_tenant_has_few_batches_under_way_and_its_models_take_turns(alone: Settings) -> None:
    models = [Target("a", f"model_{number}", "x") for number in range(3)]

    async def ask() -> None:
        batcher = Held(alone)
        calls = []
        for target in [*models, *models, Target("b", "model_b", "x")]:
            calls.append(asyncio.ensure_future(batcher.ask(target, [PROBE], "")))
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        sent = [target for target, _ in batcher.sent]
        assert sum(target.tenant == "a" for target in sent) == TENANT_UNDER_WAY
        assert sent[-1].tenant == "b", "another tenant does not wait for them"
        calls += [asyncio.ensure_future(batcher.ask(models[0], [PROBE], "")) for _ in range(5)]
        for _ in range(20):
            batcher.let_go.release()
        await asyncio.gather(*calls)
        assert {target for target, _ in batcher.sent[:6]} >= set(models)
        assert not batcher.shares
        await batcher.stop()

    asyncio.run(ask())


def test_a_batch_never_mixes_tenants(alone: Settings) -> None:
    """Even if both may ask the same model."""
    targets = [Target(tenant, "model_1", "x") for tenant in "ab"]

    async def ask() -> set[tuple[str, ...]]:
        batcher = Held(alone)
        batcher.let_go = asyncio.Semaphore(100)
        await asyncio.gather(*(batcher.ask(target, [PROBE], target.tenant) for target in targets * 20))
        await batcher.stop()
        return {(target.tenant, *{asked.request_id for asked in batch}) for target, batch in batcher.sent}

    assert asyncio.run(ask()) == {("a", "a"), ("b", "b")}


class FailsFirst(Held):
    """Fails its first batch; the second is under way until it is let go."""

    async def _send(self, target: Target, batch: list[Asked]) -> list[Reply]:
        if not self.sent:
            self.sent.append((target, batch))
            raise Unavailable("query_lost", "lost")
        return await super()._send(target, batch)


def test_what_a_refused_call_asked_does_not_wait_on(alone: Settings) -> None:
    """It no longer counts, so that its questions and facts would be computed beyond all limits."""

    async def ask() -> None:
        batcher = FailsFirst(alone)
        with pytest.raises(Unavailable, match="lost"):
            await batcher.ask(NOBODY, [PROBE] * 3 * MAX_BATCH, "")
        assert not batcher.waiting
        assert not batcher.lanes[NOBODY].waiting
        batcher.let_go.release()
        await asyncio.gather(*batcher.tasks)
        assert len(batcher.sent) == 2, "the failed one, and one that was under way before the call was refused"
        await batcher.stop()

    asyncio.run(ask())


def test_a_question_that_has_waited_too_long_is_refused_and_not_computed(alone: Settings) -> None:
    async def ask() -> tuple[ServiceError, list[str]]:
        batcher = Held(alone.model_copy(update={"reply_seconds": 0.0}))
        batcher.lanes[NOBODY].senders = UNDER_WAY  # its lane is busy
        late = asyncio.ensure_future(batcher.ask(NOBODY, [PROBE] * 100, "late"))
        await asyncio.sleep(0)
        batcher._spawn(batcher._drain(NOBODY, batcher.lanes[NOBODY]))
        with pytest.raises(Unavailable, match="CTP_REPLY_SECONDS") as caught:
            await late
        sent = [asked.request_id for _, batch in batcher.sent for asked in batch]
        await batcher.stop()
        return caught.value, sent

    error, sent = asyncio.run(ask())
    assert (error.code, error.status, sent) == ("query_waited_too_long", 503, [])
    assert "to this model and to your others" in error.detail, "a tenant's models share its batches"
    assert "Retry-After" in error.headers
