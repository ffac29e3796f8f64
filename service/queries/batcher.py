"""Batches: the questions to one model that arrive while a batch is under way are sent as one task."""

import asyncio
import json
import uuid
from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import structlog
from celery import Celery
from redis.asyncio import Redis
from redis.exceptions import RedisError

from service.errors import Unavailable
from service.queue import QUERY_QUEUE, QUERY_TASK, make_celery, redis_url
from service.settings import Settings

log = structlog.get_logger()
MAX_BATCH = 256
BLOCK_SECONDS = 1
RECONNECT_SECONDS = 0.2
Reply = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """The model that a question is for."""

    model_id: str
    artifact: str


@dataclass
class Lane:
    """What waits for one model, and whether a batch of it is under way."""

    waiting: deque[tuple[dict[str, Any], "asyncio.Future[Reply]"]] = field(default_factory=deque)
    busy: bool = False


class Batcher:
    """Lives in the event loop of one API process; replies come by one Redis list of its own."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.reply_key = f"ctp:replies:{uuid.uuid4().hex}"
        self.celery: Celery = make_celery(settings)
        self.redis = Redis.from_url(redis_url(settings))
        self.publisher = ThreadPoolExecutor(1, thread_name_prefix="publish")
        self.lanes: defaultdict[Target, Lane] = defaultdict(Lane)
        self.under_way: dict[str, asyncio.Future[list[Reply]]] = {}
        self.listener: asyncio.Task[None] | None = None
        self.senders: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self.listener = asyncio.create_task(self._listen())

    async def stop(self) -> None:
        if self.listener is not None:
            self.listener.cancel()
            await asyncio.gather(self.listener, return_exceptions=True)
        self.publisher.shutdown(wait=False)
        await self.redis.aclose()

    async def ask(self, target: Target, question: dict[str, Any]) -> Reply:
        """One question, one reply: `{"answers": …}` or `{"problem": …}`. Raises Unavailable where no worker answers."""
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        lane = self.lanes[target]
        lane.waiting.append((question, reply))
        if not lane.busy:
            lane.busy = True
            sender = asyncio.create_task(self._drain(target, lane))
            self.senders.add(sender)
            sender.add_done_callback(self.senders.discard)
        return await reply

    async def _drain(self, target: Target, lane: Lane) -> None:
        while lane.waiting:
            batch = [lane.waiting.popleft() for _ in range(min(len(lane.waiting), MAX_BATCH))]
            batch = [(question, reply) for question, reply in batch if not reply.done()]
            if batch:
                await self._answer(target, batch)
        lane.busy = False
        self.lanes.pop(target, None)

    async def _answer(self, target: Target, batch: list[tuple[dict[str, Any], "asyncio.Future[Reply]"]]) -> None:
        try:
            replies = await self._send(target, [question for question, _ in batch])
            for (_, waiting), reply in zip(batch, replies, strict=True):
                if not waiting.done():
                    waiting.set_result(reply)
        except Exception as error:
            for _, waiting in batch:
                if not waiting.done():
                    waiting.set_exception(error)

    async def _send(self, target: Target, questions: list[dict[str, Any]]) -> list[Reply]:
        batch_id = uuid.uuid4().hex
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Reply]] = loop.create_future()
        self.under_way[batch_id] = future
        message = {
            "batch_id": batch_id,
            "reply_to": self.reply_key,
            "model_id": target.model_id,
            "artifact": target.artifact,
            "questions": questions,
            "seconds": self.settings.query_seconds,
        }
        try:
            await loop.run_in_executor(self.publisher, self._publish, message)
            return await asyncio.wait_for(future, self.settings.reply_seconds)
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
            )
        except Exception as error:
            raise Unavailable("queue_down", "the queue cannot be reached: try again in a moment") from error

    async def _listen(self) -> None:
        while True:
            try:
                popped = await self.redis.blpop([self.reply_key], timeout=BLOCK_SECONDS)
            except RedisError as error:
                log.warning("queue_unreachable", error=str(error))
                await asyncio.sleep(RECONNECT_SECONDS)
                continue
            if popped is not None:
                reply = json.loads(popped[1])
                future = self.under_way.get(reply["batch_id"])
                if future is not None and not future.done():
                    future.set_result(reply["replies"])
