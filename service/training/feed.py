"""What the listeners of a job share: each look at the database serves all who follow or wait for the job."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from sqlalchemy.orm import Session

from service.db.engine import AWAY_ERRORS, Database
from service.http.turns import Turns
from service.training import events, service
from service.training.events import Heard, Look, Position
from service.training.schemas import JobOut

T = TypeVar("T")
THREADS = 2
LOOK_SECONDS = 0.5  # between two looks for new events
SPREAD = 0.8  # of that time, over which listeners wake up; less than 1, so that each comes in time for every look
WAIT_SECONDS = 0.2  # between two looks whether a job has ended
SHARE_SECONDS = 0.02  # between two looks for any of a tenant's jobs: hundreds of jobs are each looked for less often
KEEPALIVE_SECONDS = 15.0
RETRY_MILLISECONDS = 1000


class Kept(Generic[T]):
    """A result that is made again when somebody asks for it and its time is over, unless it failed."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._made_at = float("-inf")
        self._making: asyncio.Task[T] | None = None

    def get(self, make: Callable[[], Coroutine[Any, Any, T]], seconds: Callable[[], float]) -> "asyncio.Task[T]":
        """`seconds` says for how long a result that is made now is kept."""
        making = self._making
        if making is None or (making.done() and (_failed(making) or self.left <= 0)):
            making = self._making = _shared(make())
            self._made_at, self._seconds = time.monotonic(), seconds()
        return making

    @property
    def left(self) -> float:
        """Returns the seconds for which the result is kept."""
        return self._made_at + self._seconds - time.monotonic()


def _failed(task: "asyncio.Task[Any]") -> bool:
    return task.cancelled() or task.exception() is not None


def _shared(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """Starts work for several callers, of whom none may be left when it fails."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_failed)
    return task


class Feed:
    """The events of one job; whoever has heard the same is told the same, from one look and encoded once."""

    def __init__(
        self, database: Database, turns: Turns, tenant: str, job_id: str, num_jobs: Callable[[], int] = lambda: 1
    ) -> None:
        """`num_jobs` counts the jobs that the tenant follows or waits for."""
        self._database, self._turns, self._tenant, self._job_id = database, turns, tenant, job_id
        self._num_jobs = num_jobs
        self._looks, self._states = Kept[Look](), Kept[JobOut]()
        self._last: Look | None = None
        # By what a listener has heard so far; emptied at each look.
        self._told: dict[tuple[Position, int], asyncio.Task[Heard]] = {}

    async def look(self) -> Look:
        """Returns the state of the job, at most `LOOK_SECONDS` old unless many are followed; raises NotFound."""
        # A listener that goes away must not cancel the look for the others.
        return await asyncio.shield(self._looks.get(self._look, lambda: self._kept(LOOK_SECONDS)))

    async def state(self) -> JobOut:
        """Returns the job, at most `WAIT_SECONDS` old unless many are waited for; raises NotFound."""
        return await asyncio.shield(self._states.get(self._state, lambda: self._kept(WAIT_SECONDS)))

    def _kept(self, seconds: float) -> float:
        return max(seconds, SHARE_SECONDS * self._num_jobs())

    async def until_next_state(self, most: float) -> None:
        """Waits until it is time to ask for the next state, at most so many seconds."""
        await asyncio.sleep(min(most, max(WAIT_SECONDS, self._states.left)))

    async def after(self, heard: Heard) -> Heard:
        """Returns what is new for a listener; raises NotFound."""
        found = await self.look()
        key = heard.position, id(heard.job)
        if key not in self._told:
            self._told[key] = _shared(self._run(partial(events.news, found=found, heard=heard)))
        return await asyncio.shield(self._told[key])

    async def pause(self) -> None:
        """Waits until it is time for the next look, and a moment more, lest hundreds of listeners wake up at once."""
        moment = random.uniform(0.0, SPREAD * LOOK_SECONDS)  # noqa: S311  it is not a secret
        await asyncio.sleep(max(0.0, self._looks.left) + moment)

    async def _look(self) -> Look:
        before = self._last
        self._last = await self._run(lambda session: events.look(session, self._tenant, self._job_id, before))
        self._told = {}
        return self._last

    async def _state(self) -> JobOut:
        return await self._run(lambda session: service.look_up(session, self._tenant, self._job_id))

    async def _run(self, work: Callable[[Session], T]) -> T:
        def read() -> T:
            with self._database.read() as session:
                return work(session)

        return await self._turns.run(self._tenant, read)


class Feeds:
    """The jobs that are followed or waited for in this process."""

    def __init__(self, database: Database) -> None:
        self._database, self._turns = database, Turns(THREADS, "events")
        # A feed is forgotten when nobody listens any more.
        self._feeds: WeakValueDictionary[tuple[str, str], Feed] = WeakValueDictionary()

    def of(self, tenant: str, job_id: str) -> Feed:
        feed = self._feeds.get((tenant, job_id))
        if feed is None:
            feed = Feed(self._database, self._turns, tenant, job_id, partial(self._num_jobs, tenant))
            self._feeds[tenant, job_id] = feed
        return feed

    def _num_jobs(self, tenant: str) -> int:
        return sum(owner == tenant for owner, _ in self._feeds)

    def stop(self) -> None:
        self._turns.stop()


async def stream(feed: Feed, position: Position) -> AsyncIterator[bytes]:
    """Streams until the job ends or the database goes away; the listener then reconnects with its last event id."""
    heard = Heard(position)
    spoke = time.monotonic()
    yield format_sse_event(retry=RETRY_MILLISECONDS, comment="events of a job")
    while not heard.position.ended:
        try:
            heard = await feed.after(heard)
        except AWAY_ERRORS:
            return
        if heard.events or time.monotonic() - spoke >= KEEPALIVE_SECONDS:
            spoke = time.monotonic()
            yield heard.events or KEEPALIVE_COMMENT
        if not heard.position.ended:
            await feed.pause()
