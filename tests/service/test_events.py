"""The stream of a job's events, on a database of its own."""

import asyncio

import pytest
from sqlalchemy import event
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.types import Message

from service.db.engine import Database
from service.db.tables import Job
from service.errors import TooMany
from service.kbs import service as kbs
from service.settings import Settings
from service.training import events, service
from service.training.router import follow_job
from service.training.schemas import TrainRequest
from service.training.waiting import Waiting
from tests.built_kbs import built

TENANT = "default"


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    kbs.create(sqlite_database, TENANT, "small", built([("a", "p", "b")]))
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
    waiting = Waiting(1)

    async def listen() -> list[bytes]:
        seen = []
        async for message in events.stream(waiting, database, job, events.Position()):
            seen.append(message)
            if b"event: status" in message:
                event.listen(database.engine, "begin", fall_away)
        return seen

    def fall_away(_: object) -> None:
        raise error

    assert b'"status": "queued"' in asyncio.run(listen())[-1]
    waiting.stop()


def test_a_stream_is_refused_before_it_begins(database: Database, job: Job) -> None:
    """A stream that has begun has answered 200 and can only break."""
    waiting = Waiting(1)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(_: Message) -> None:
        pass

    async def listen() -> None:
        first = await follow_job(job.id, database, TENANT, waiting)
        with pytest.raises(TooMany, match="CTP_MAX_WAITING_CALLS"):
            await follow_job(job.id, database, TENANT, waiting)
        await first({"type": "http", "asgi": {"spec_version": "2.0"}}, receive, send)
        waiting.take(TENANT)  # the place is free again

    asyncio.run(listen())
    waiting.stop()
