"""The stream of a job's events, on a database of its own."""

import asyncio
import re
from collections.abc import Iterator

import pytest
from sqlalchemy import event
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.types import Message

from service.db.engine import Database
from service.db.tables import Job, Metric
from service.errors import TooMany
from service.http.places import waiting
from service.kbs import service as kbs
from service.settings import Settings
from service.training import events, feed, service
from service.training.events import Position
from service.training.feed import Feeds, stream
from service.training.router import follow_job
from service.training.schemas import TrainRequest
from service.training.submission import finished
from tests.built_kbs import built
from tests.stores import files_of

TENANT = "default"


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    kbs.create(sqlite_database, files_of(sqlite_database), TENANT, "small", built([("a", "p", "b")]))
    return sqlite_database


@pytest.fixture
def job(database: Database) -> Job:
    with database.write() as session:
        return service.submit(session, TENANT, TrainRequest(kb="small"), Settings())[0]


@pytest.mark.parametrize(
    "error", [OperationalError("x", None, Exception()), InterfaceError("x", None, Exception()), PoolTimeout("x")]
)
def test_a_listener_is_let_go_when_the_database_goes_away(database: Database, job: Job, error: Exception) -> None:
    """It comes back with what it saw last; an error in the middle of an answer would look like a fault of ours."""
    feeds = Feeds(database)

    async def listen() -> list[bytes]:
        seen = []
        async for message in stream(feeds.of(TENANT, job.id), Position()):
            seen.append(message)
            if b"event: status" in message:
                event.listen(database.engine, "begin", fall_away)
        return seen

    def fall_away(_: object) -> None:
        raise error

    assert b'"status": "queued"' in asyncio.run(listen())[-1]
    feeds.stop()


def test_a_stream_is_refused_before_it_begins(database: Database, job: Job) -> None:
    """A stream that has begun has answered 200 and can only break."""
    places, feeds = waiting(1), Feeds(database)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(_: Message) -> None:
        pass

    async def listen() -> None:
        first = await follow_job(job.id, TENANT, places, feeds)
        with pytest.raises(TooMany, match="CTP_MAX_WAITING_CALLS"):
            await follow_job(job.id, TENANT, places, feeds)
        await first({"type": "http", "asgi": {"spec_version": "2.0"}}, receive, send)
        places.take(TENANT)  # the place is free again

    asyncio.run(listen())
    places.stop()
    feeds.stop()


@pytest.fixture
def feeds(database: Database) -> Iterator[Feeds]:
    made = Feeds(database)
    yield made
    made.stop()


def test_listeners_of_a_job_share_its_looks_and_its_events(database: Database, job: Job, feeds: Feeds) -> None:
    """Hundreds of streams of one job took the whole process, and every other call waited for seconds."""
    looks: list[object] = []
    event.listen(database.engine, "begin", looks.append)

    async def first_events() -> bytes:
        messages = stream(feeds.of(TENANT, job.id), Position())
        await anext(messages)
        return await anext(messages)

    async def listen() -> list[bytes]:
        return await asyncio.gather(*(first_events() for _ in range(100)))

    heard = asyncio.run(listen())
    assert b"event: status" in heard[0]
    assert all(message is heard[0] for message in heard)
    assert len(looks) < 20, "one for the job and one for the events; some more if the machine is busy"


def test_calls_that_wait_for_a_job_share_its_looks(database: Database, job: Job, feeds: Feeds) -> None:
    looks: list[object] = []
    event.listen(database.engine, "begin", looks.append)

    async def wait() -> None:
        await asyncio.gather(*(finished(feeds.of(TENANT, job.id), 0.01) for _ in range(100)))

    asyncio.run(wait())
    assert len(looks) < 20


def test_a_tenant_that_waits_for_many_jobs_has_each_looked_for_less_often(
    database: Database, job: Job, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for two hundred jobs was a thousand looks a second."""
    monkeypatch.setattr(feed, "SHARE_SECONDS", 10.0)
    looks: list[object] = []
    event.listen(database.engine, "begin", looks.append)

    async def wait() -> None:
        assert (await finished(feeds.of(TENANT, job.id), 0.7)).status == "queued"

    asyncio.run(wait())
    assert len(looks) == 1


def ids_and_names(messages: list[bytes]) -> list[tuple[str, str]]:
    text = b"".join(messages).decode()
    return list(zip(re.findall(r"^id: (.*)$", text, re.M), re.findall(r"^event: (.*)$", text, re.M), strict=True))


@pytest.mark.parametrize("last", [250, 450])
@pytest.mark.parametrize(("begin", "first"), [(None, 1), ("running.1.120", 121), ("running.1.240", 241)])
def test_whoever_comes_late_hears_each_epoch_once_and_the_end_last(
    database: Database,
    job: Job,
    feeds: Feeds,
    monkeypatch: pytest.MonkeyPatch,
    begin: str | None,
    first: int,
    last: int,
) -> None:
    """240 epochs, and then as many more as are read at once, or twice as many, and the end, while others listen."""
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(events, "MAX_EPOCHS_AT_ONCE", 100)

    def write(epochs: range, status: str) -> None:
        with database.write() as session:
            session.add_all(Metric(job_id=job.id, epoch=epoch, attempt=1, loss=0.5, values={}) for epoch in epochs)
            found = service.get(session, TENANT, job.id)
            found.status, found.attempt = status, 1

    async def listen(position: Position) -> list[bytes]:
        return [message async for message in stream(feeds.of(TENANT, job.id), position)]

    async def story() -> list[bytes]:
        early = asyncio.ensure_future(listen(Position.parse("running.1.240")))
        await feeds.of(TENANT, job.id).look()
        late = asyncio.ensure_future(listen(Position.parse(begin)))
        await asyncio.to_thread(write, range(241, last + 1), "succeeded")
        await early
        return await late

    write(range(1, 241), "running")
    heard = ids_and_names(asyncio.run(story()))
    epochs = [int(place.rsplit(".", 1)[1]) for place, name in heard if name == "epoch"]
    assert epochs == list(range(first, last + 1))
    assert heard[-1] == (f"succeeded.1.{last}", "status")


def test_a_call_that_gets_no_place_costs_no_look(database: Database, job: Job, feeds: Feeds) -> None:
    looks: list[object] = []
    event.listen(database.engine, "begin", looks.append)
    places = waiting(1)
    places.take(TENANT)
    with pytest.raises(TooMany):
        asyncio.run(follow_job(job.id, TENANT, places, feeds))
    assert not looks
    places.stop()
