"""Groups questions into batches: questions that arrive while a model is busy are sent together as one task.

Two batches per model may be under way, so that the worker answers one while this process handles the other. Of one
tenant there may be four, and its models take turns: a batch never mixes tenants, and no tenant fills the queue.
"""

import asyncio
import math
import time
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from typing import Any, cast

import structlog
from celery import Celery
from redis.asyncio import Redis
from redis.exceptions import RedisError

from service.errors import TooMany, Unavailable
from service.health import counters
from service.http.turns import Turns
from service.queries.wire import LARGE_FACTS, Reply, encode_facts, facts_key, unpack, waits_key
from service.queue import QUERY_QUEUE, QUERY_TASK, alive_key, make_celery, make_redis, redis_url
from service.settings import MIB, Settings

log = structlog.get_logger()
MAX_BATCH = 64
MAX_BATCH_BYTES = 4 * MIB  # facts of one message, unless one question alone brings more
MAX_BATCH_RESULTS = 5000  # answers and proofs in the replies to one message, unless one question asks for more
UNDER_WAY = 2
TENANT_UNDER_WAY = 4
BLOCK_SECONDS = 1
RECONNECT_SECONDS = 0.2
WATCH_SECONDS = 0.5
CANCEL_AGAIN_SECONDS = 0.1
MAX_CANCELLATIONS = 50  # five seconds: a loop that misses so many is not going to end
ATTEMPTS = 2
WAIT_SHARE = 0.75  # of the time for a question, in which it must be sent: what is left must do for a short answer
_TOO_LONG = (
    "your earlier questions, to this model and to your others, took all of the {:g} s in which this one had to be sent "
    "(three quarters of CTP_REPLY_SECONDS): ask fewer at once, or try again later"
)


@dataclass(frozen=True)
class Target:
    """The model that a question is for, on its own KB or on another one, and the tenant that asks."""

    tenant: str
    model_id: str
    artifact: str
    kb_id: str | None = None


@dataclass(frozen=True)
class Asked:
    """A waiting question, the id of its request, and when it was asked."""

    question: dict[str, Any]
    request_id: str
    reply: "asyncio.Future[Reply]"
    asked_at: float = field(default_factory=time.monotonic)

    @property
    def num_results(self) -> int:
        """Returns how many answers and proofs the reply may have."""
        return int(self.question["top_k"] * self.question.get("num_atoms", 1) * (1 + self.question["proofs"]))

    @property
    def alone(self) -> bool:
        """A logical question and an explanation may take all the time of a batch: others would wait for them."""
        return "where" in self.question or "explained" in self.question


@dataclass
class Lane:
    """The questions that wait for one target, and the number of its batches under way."""

    waiting: deque[Asked] = field(default_factory=deque)
    senders: int = 0

    def drop(self, asked: Sequence[Asked]) -> None:
        """Forgets questions whose caller has gone or was refused, with their facts."""
        unanswered = [one for one in asked if not one.reply.done()]
        for one in unanswered:
            one.reply.cancel()
        if unanswered:
            kept = [one for one in self.waiting if not one.reply.done()]
            self.waiting.clear()
            self.waiting.extend(kept)

    def refuse_late(self, seconds: float) -> None:
        """Refuses the questions that have waited for longer; without that, thousands could wait for hours."""
        while self.waiting and time.monotonic() - self.waiting[0].asked_at > seconds:
            late = self.waiting.popleft().reply
            if not late.done():
                late.set_exception(Unavailable("query_waited_too_long", _TOO_LONG.format(seconds)))


@dataclass
class Batch:
    """A batch under way; `workers` are those that were alive when it was sent."""

    future: "asyncio.Future[list[Reply]]"
    workers: frozenset[str]


class WorkerLost(Exception):
    """A worker that may hold the batch is gone."""


class Batcher:
    """Sends the questions of one API process to workers and receives the replies through a Redis list of its own."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.reply_key = f"ctp:replies:{uuid.uuid4().hex}"
        self.celery: Celery = make_celery(settings)
        self.redis = Redis.from_url(redis_url(settings))
        self.publisher = Turns(2, "publish")
        self.beside = make_redis(settings)  # for what does not travel in a message
        self.lanes: defaultdict[Target, Lane] = defaultdict(Lane)
        # Who waits for a semaphore gets it in turn, so that each model of a tenant sends one batch after the other.
        self.shares: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(TENANT_UNDER_WAY))
        self.under_way: dict[str, Batch] = {}
        self.workers: frozenset[str] = frozenset()
        self.waiting: Counter[str] = Counter()  # questions by tenant
        self.tasks: set[asyncio.Task[None]] = set()
        self.loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self.loops = [self._spawn(self._for_ever(turn)) for turn in (self._listen, self._watch)]

    @property
    def listens(self) -> bool:
        """Tells whether the loops run, without which no question is answered."""
        return bool(self.loops) and not any(loop.done() for loop in self.loops)

    async def stop(self) -> None:
        await self._end_tasks()
        for lane in self.lanes.values():
            for asked in lane.waiting:
                if not asked.reply.done():
                    asked.reply.set_exception(Unavailable("stopping", "the service is being stopped: try again"))
        self.publisher.stop()
        self.beside.close()
        await self.redis.aclose()

    async def _end_tasks(self) -> None:
        """Cancels all tasks, repeatedly until they are done; logs and leaves those that no cancellation ends.

        One cancellation is not enough: `asyncio.wait_for` of Python 3.11, which the Redis client uses, loses one that
        arrives just when its own call is done, and a loop would go on for ever.
        """
        tasks = running = set(self.tasks)
        for _ in range(MAX_CANCELLATIONS):
            if not running:
                break
            for task in running:
                task.cancel()
            _, running = await asyncio.wait(running, timeout=CANCEL_AGAIN_SECONDS)
        if running:
            log.error("tasks_do_not_end", tasks=[repr(task.get_coro()) for task in running], tries=MAX_CANCELLATIONS)
        await asyncio.gather(*tasks - running, return_exceptions=True)

    async def ask(self, target: Target, questions: Sequence[dict[str, Any]], request_id: str) -> list[Reply]:
        """Returns one reply per question; raises TooMany if too many wait, Unavailable if no worker answers."""
        limit = self.settings.max_waiting_queries
        if self.waiting[target.tenant] + len(questions) > limit:
            raise TooMany("too_many_queries", f"{limit} questions already wait (CTP_MAX_WAITING_QUERIES): try again")
        loop = asyncio.get_running_loop()
        asked = [Asked(question, request_id, loop.create_future()) for question in questions]
        lane = self.lanes[target]
        lane.waiting.extend(asked)
        self.waiting[target.tenant] += len(asked)
        if lane.senders < UNDER_WAY:
            lane.senders += 1
            self._spawn(self._drain(target, lane))
        try:
            return list(await asyncio.gather(*(one.reply for one in asked)))
        finally:
            # A question that is not counted any more must leave the lane: its facts would pass the limits of memory.
            lane.drop(asked)
            self.waiting[target.tenant] -= len(asked)
            if not self.waiting[target.tenant]:
                del self.waiting[target.tenant]

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def _drain(self, target: Target, lane: Lane) -> None:
        try:
            while lane.waiting:
                async with self.shares[target.tenant]:
                    lane.refuse_late(WAIT_SHARE * self.settings.reply_seconds)
                    taken = next_batch(lane.waiting)
                    # Callers that have gone away need no answer.
                    batch = [asked for asked in taken if not asked.reply.done()]
                    if batch:
                        await self._answer(target, batch)
        finally:
            lane.senders -= 1
            if not lane.senders and self.lanes.get(target) is lane and not lane.waiting:
                del self.lanes[target]
                if not any(other.tenant == target.tenant for other in self.lanes):
                    self.shares.pop(target.tenant, None)

    async def _answer(self, target: Target, batch: list[Asked]) -> None:
        counters.BATCH_SIZE.observe(len(batch))
        try:
            replies = await self._send(target, batch)
            for asked, reply in zip(batch, replies, strict=True):
                if not asked.reply.done():
                    asked.reply.set_result(reply)
        except BaseException as error:
            for asked in batch:
                if not asked.reply.done():
                    failure = (
                        error
                        if isinstance(error, Unavailable)
                        else Unavailable("query_lost", "the query was lost: try again")
                    )
                    asked.reply.set_exception(failure)
            if not isinstance(error, Exception):
                raise

    async def _send(self, target: Target, batch: list[Asked]) -> list[Reply]:
        """Sends a batch, and once more if a worker that may have held it is lost; raises Unavailable after that."""
        questions, facts = apart([asked.question for asked in batch])
        message = {
            "reply_to": self.reply_key,
            **asdict(target),
            "questions": questions,
            "facts": facts,
            "request_ids": [asked.request_id for asked in batch],  # of each question
            "seconds": self.settings.query_seconds,
            "reply_seconds": self.settings.reply_seconds,  # read by workers of 0.1.0 alone
        }
        # What the last of them has waited in its lane is gone.
        seconds = self.settings.reply_seconds - (time.monotonic() - max(asked.asked_at for asked in batch))
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._send_once(message, seconds)
            except WorkerLost:
                log.warning("query_worker_lost", attempt=attempt, request_ids=message["request_ids"])
        raise Unavailable(
            "query_worker_lost",
            "the query worker died twice during this query: try a smaller query, or try again later",
        )

    async def _send_once(self, message: dict[str, Any], seconds: float) -> list[Reply]:
        batch_id = uuid.uuid4().hex
        loop = asyncio.get_running_loop()
        batch = Batch(loop.create_future(), self.workers)
        self.under_way[batch_id] = batch
        try:
            publish = partial(self._publish, {**message, "batch_id": batch_id}, seconds)
            await self.publisher.run(message["tenant"], publish)
            return await asyncio.wait_for(batch.future, seconds)
        except TimeoutError:
            raise Unavailable(
                "no_query_worker", "no query worker answered in time: try again, or start another worker"
            ) from None
        finally:
            del self.under_way[batch_id]

    def _publish(self, message: dict[str, Any], seconds: float) -> None:
        try:
            milliseconds = max(1, math.ceil(seconds * 1000))
            message = {**message, "waits": waits_key(message["batch_id"])}
            self.beside.set(message["waits"], b"", px=milliseconds)
            if sum(map(len, message["facts"])) > LARGE_FACTS:
                self.beside.set(facts_key(message["batch_id"]), encode_facts(message["facts"]), px=milliseconds)
                message = {**message, "facts": None}
            self.celery.send_task(
                QUERY_TASK,
                args=[message],
                queue=QUERY_QUEUE,
                retry=False,
                ignore_result=True,
                # Otherwise Celery formats all questions once more for its logs.
                argsrepr="(…)",
            )
        except Exception as error:
            raise Unavailable("queue_down", "the queue cannot be reached: try again in a moment") from error

    async def _for_ever(self, turn: Callable[[], Awaitable[None]]) -> None:
        """Repeats `turn` for ever and logs its errors: all queries depend on these loops."""
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
        """Receives one message and hands its replies to the batch that waits for them."""
        popped = await self.redis.blpop([self.reply_key], timeout=BLOCK_SECONDS)
        if popped is not None:
            batch_id, replies = unpack(cast("bytes", popped[1]))
            batch = self.under_way.get(batch_id)
            if batch is not None and not batch.future.done():
                batch.future.set_result(replies)

    async def _watch(self) -> None:
        """Looks which workers are alive; fails batches that were sent while a worker was alive that is gone now."""
        found = [key async for key in self.redis.scan_iter(match=alive_key(QUERY_QUEUE, "*"), count=1000)]
        self.workers = frozenset(key.decode() for key in found)
        for batch in self.under_way.values():
            if batch.workers - self.workers and not batch.future.done():
                batch.future.set_exception(WorkerLost())
        await asyncio.sleep(WATCH_SECONDS)


def next_batch(waiting: deque[Asked]) -> list[Asked]:
    """Takes the next questions of a lane: at most MAX_BATCH, with no more facts and results than a message may have.

    A logical question travels alone. Facts that several questions share count once, as they travel once.
    """
    taken: list[Asked] = []
    num_bytes, num_results, counted = 0, 0, set[int]()
    while waiting and len(taken) < MAX_BATCH:
        facts = waiting[0].question["facts"]
        if id(facts) not in counted:
            counted.add(id(facts))
            num_bytes += sum(map(len, chain.from_iterable(facts)))
        num_bytes += sum(map(len, chain.from_iterable(waiting[0].question.get("without", ()))))
        num_results += waiting[0].num_results
        large = num_bytes > MAX_BATCH_BYTES or num_results > MAX_BATCH_RESULTS
        if taken and (large or waiting[0].alone):
            break
        taken.append(waiting.popleft())
        if taken[-1].alone:
            break
    return taken


def apart(questions: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """Returns the questions, with facts replaced by a number, and the lists of facts, which many questions share."""
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
