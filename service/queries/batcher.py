"""Batches: the questions to one model that arrive while its batches are under way are sent as one task.

Two batches may be under way for each model, so that the worker answers one while this process deals with the other.
"""

import asyncio
import uuid
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import structlog
from celery import Celery
from redis.asyncio import Redis
from redis.exceptions import RedisError

from service.errors import TooMany, Unavailable
from service.health import counters as metrics
from service.queries.wire import Reply, unpack
from service.queue import QUERY_QUEUE, QUERY_TASK, alive_key, make_celery, redis_url
from service.settings import Settings

log = structlog.get_logger()
MAX_BATCH = 64
UNDER_WAY = 2
BLOCK_SECONDS = 1
RECONNECT_SECONDS = 0.2
WATCH_SECONDS = 0.5
CANCEL_AGAIN_SECONDS = 0.1
ATTEMPTS = 2


@dataclass(frozen=True)
class Target:
    """What a question is for: a model, on its own KB or on another one."""

    model_id: str
    artifact: str
    kb_id: str | None = None


@dataclass(frozen=True)
class Asked:
    """A question that waits, and the request it came with."""

    question: dict[str, Any]
    request_id: str
    reply: "asyncio.Future[Reply]"


@dataclass
class Lane:
    """What waits for one target, and how many batches of it are under way."""

    waiting: deque[Asked] = field(default_factory=deque)
    senders: int = 0


@dataclass
class Batch:
    """A batch that a worker has; `workers` are those that were there when it was sent."""

    future: "asyncio.Future[list[Reply]]"
    workers: frozenset[str]


class WorkerLost(Exception):
    """A worker that may have had the batch is gone."""


class Batcher:
    """Lives in the event loop of one API process; replies come by one Redis list of its own."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.reply_key = f"ctp:replies:{uuid.uuid4().hex}"
        self.celery: Celery = make_celery(settings)
        self.redis = Redis.from_url(redis_url(settings))
        self.publisher = ThreadPoolExecutor(1, thread_name_prefix="publish")
        self.lanes: defaultdict[Target, Lane] = defaultdict(Lane)
        self.under_way: dict[str, Batch] = {}
        self.workers: frozenset[str] = frozenset()
        self.num_waiting = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self.loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self.loops = [self._spawn(self._for_ever(turn)) for turn in (self._listen, self._watch)]

    @property
    def listens(self) -> bool:
        """Without its loops no question would ever be answered."""
        return bool(self.loops) and not any(loop.done() for loop in self.loops)

    async def stop(self) -> None:
        await self._end_tasks()
        for lane in self.lanes.values():
            for asked in lane.waiting:
                if not asked.reply.done():
                    asked.reply.set_exception(Unavailable("stopping", "the service is being stopped: try again"))
        self.publisher.shutdown(wait=False)
        await self.redis.aclose()

    async def _end_tasks(self) -> None:
        """Cancels them until they are done: `asyncio.wait_for` of Python 3.11, which the Redis client sends with, loses
        a cancellation that comes just when its own call is done, and a loop would go on for ever."""
        tasks = list(self.tasks)
        while running := [task for task in tasks if not task.done()]:
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=CANCEL_AGAIN_SECONDS)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def ask(self, target: Target, questions: Sequence[dict[str, Any]], request_id: str) -> list[Reply]:
        """One reply for each question. Raises TooMany where too much waits, Unavailable where no worker answers."""
        if self.num_waiting + len(questions) > self.settings.max_waiting_queries:
            limit = self.settings.max_waiting_queries
            raise TooMany("too_many_queries", f"{limit} questions wait already (CTP_MAX_WAITING_QUERIES): try again")
        loop = asyncio.get_running_loop()
        asked = [Asked(question, request_id, loop.create_future()) for question in questions]
        lane = self.lanes[target]
        lane.waiting.extend(asked)
        self.num_waiting += len(asked)
        if lane.senders < UNDER_WAY:
            lane.senders += 1
            self._spawn(self._drain(target, lane))
        try:
            return list(await asyncio.gather(*(one.reply for one in asked)))
        finally:
            self.num_waiting -= len(asked)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def _drain(self, target: Target, lane: Lane) -> None:
        try:
            while lane.waiting:
                taken = [lane.waiting.popleft() for _ in range(min(len(lane.waiting), MAX_BATCH))]
                # A caller that went away is not asked for.
                batch = [asked for asked in taken if not asked.reply.done()]
                if batch:
                    await self._answer(target, batch)
        finally:
            lane.senders -= 1
            if not lane.senders and self.lanes.get(target) is lane and not lane.waiting:
                del self.lanes[target]

    async def _answer(self, target: Target, batch: list[Asked]) -> None:
        metrics.BATCH_SIZE.observe(len(batch))
        try:
            replies = await self._send(target, batch)
            for asked, reply in zip(batch, replies, strict=True):
                if not asked.reply.done():
                    asked.reply.set_result(reply)
        except BaseException as error:
            for asked in batch:
                if not asked.reply.done():
                    failure = error if isinstance(error, Unavailable) else Unavailable("query_lost", "try again")
                    asked.reply.set_exception(failure)
            if not isinstance(error, Exception):
                raise

    async def _send(self, target: Target, batch: list[Asked]) -> list[Reply]:
        """Once more where a worker is lost, for the batch may have been with it; not a third time."""
        questions, facts = apart([asked.question for asked in batch])
        message = {
            "reply_to": self.reply_key,
            **asdict(target),
            "questions": questions,
            "facts": facts,
            "request_ids": list(dict.fromkeys(asked.request_id for asked in batch)),
            "seconds": self.settings.query_seconds,
            "reply_seconds": self.settings.reply_seconds,
        }
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._send_once(message)
            except WorkerLost:
                log.warning("query_worker_lost", attempt=attempt, request_ids=message["request_ids"])
        raise Unavailable("query_worker_lost", "the query worker died twice on this query: try another, or later")

    async def _send_once(self, message: dict[str, Any]) -> list[Reply]:
        batch_id = uuid.uuid4().hex
        loop = asyncio.get_running_loop()
        batch = Batch(loop.create_future(), self.workers)
        self.under_way[batch_id] = batch
        try:
            await loop.run_in_executor(self.publisher, self._publish, {**message, "batch_id": batch_id})
            return await asyncio.wait_for(batch.future, self.settings.reply_seconds)
        except TimeoutError:
            raise Unavailable("no_query_worker", "no query worker answered in time: try again, or start one") from None
        finally:
            del self.under_way[batch_id]

    def _publish(self, message: dict[str, Any]) -> None:
        try:
            self.celery.send_task(
                QUERY_TASK,
                args=[message],
                queue=QUERY_QUEUE,
                retry=False,
                ignore_result=True,
                expires=self.settings.reply_seconds,
                # Celery would otherwise write out all questions once more, for its logs.
                argsrepr="(…)",
            )
        except Exception as error:
            raise Unavailable("queue_down", "the queue cannot be reached: try again in a moment") from error

    async def _for_ever(self, turn: Callable[[], Awaitable[None]]) -> None:
        """One turn after another. Whatever goes wrong in one is told, and the next begins: everybody waits for them."""
        while True:
            try:
                await turn()
                continue
            except (RedisError, OSError) as error:
                log.warning("queue_unreachable", error=str(error))
            except Exception:
                log.exception("batcher_failed")
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _listen(self) -> None:
        """Hands one message to whoever waits for it."""
        popped = await self.redis.blpop([self.reply_key], timeout=BLOCK_SECONDS)
        if popped is not None:
            batch_id, replies = unpack(cast("bytes", popped[1]))
            batch = self.under_way.get(batch_id)
            if batch is not None and not batch.future.done():
                batch.future.set_result(replies)

    async def _watch(self) -> None:
        """Knows who is there; a batch that was sent when a worker was there that is gone now is given up."""
        found = [key async for key in self.redis.scan_iter(match=alive_key(QUERY_QUEUE, "*"), count=1000)]
        self.workers = frozenset(key.decode() for key in found)
        for batch in self.under_way.values():
            if batch.workers - self.workers and not batch.future.done():
                batch.future.set_exception(WorkerLost())
        await asyncio.sleep(WATCH_SECONDS)


def apart(questions: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """Questions that name their facts by number, and the facts: many goals of one call share one list of them."""
    numbers: dict[int, int] = {}
    facts: list[list[Any]] = []
    numbered = []
    for question in questions:
        shared = question["facts"]
        if id(shared) not in numbers:
            numbers[id(shared)] = len(facts)
            facts.append(shared)
        numbered.append({**question, "facts": numbers[id(shared)]})
    return numbered, facts
