"""The batcher of an API process against a real queue and worker, with things in the queue that nobody expects."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctp_core.symbols import Fact
from service.cluster import Cluster
from service.errors import Unavailable
from service.models.contest import Contest, Trial, hold
from service.models.probe import QUESTION
from service.models.schemas import Evaluation
from service.queries.batcher import Batcher, Target, apart
from service.queue import QUERY_QUEUE, alive_key
from service.settings import Settings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
NOBODY = Target("model_none", f"models/none/{'0' * 64}")


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
            return list(await batcher.ask(NOBODY, [QUESTION], ""))
        finally:
            await batcher.stop()

    (reply,) = asyncio.run(ask())
    assert isinstance(reply, dict)
    assert reply["code"] == "bad_artifact"


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


def test_who_waits_when_the_process_stops_is_told(tmp_path: Path) -> None:
    async def ask() -> BaseException:
        batcher = Batcher(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1"))
        waiting = asyncio.ensure_future(batcher.ask(NOBODY, [QUESTION] * 200, ""))
        await asyncio.sleep(0)
        await batcher.stop()
        (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
        assert isinstance(outcome, BaseException)
        return outcome

    assert isinstance(asyncio.run(ask()), Unavailable)


def test_a_comparison_tells_models_that_fail_from_models_that_err(settings: Settings) -> None:
    trial = Trial("p", ("a", "p", None), (), Fact("a", "p", "b"))

    async def compare() -> Evaluation | str:
        batcher = Batcher(settings)
        await batcher.start()
        try:
            return await hold(Contest("test", (trial,)), [NOBODY, NOBODY], batcher, "")
        finally:
            await batcher.stop()

    outcome = asyncio.run(compare())
    assert isinstance(outcome, str)
    assert outcome.startswith("model_none did not answer: the files 'models/none/")


def test_facts_that_many_goals_share_travel_once() -> None:
    facts, others = [("a", "p", "b")], [("a", "p", "c")]
    questions = [{"goal": [None, "p", name], "facts": facts} for name in "xyz"] + [{"goal": [], "facts": others}]
    numbered, lists = apart(questions)
    assert lists == [facts, others]
    assert [question["facts"] for question in numbered] == [0, 0, 0, 1]
    assert [question["goal"] for question in numbered] == [question["goal"] for question in questions]
