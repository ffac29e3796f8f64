"""Errors that no call should meet: each is still problem+json, and says nothing of the inside."""

import asyncio
from pathlib import Path

import httpx
import pytest
import structlog
from fastapi import FastAPI
from psycopg.errors import UndefinedTable
from redis.exceptions import RedisError
from sqlalchemy.exc import DatabaseError, DataError, IntegrityError, OperationalError, ProgrammingError

from service.app import create_app
from service.db.engine import Database
from service.db.migrate import migrate
from service.health.service import _database
from service.http.problems import MEDIA_TYPE, add_problem_handlers
from service.settings import Settings

SECRET = Exception("INSERT INTO secrets")


def answer_to(error: Exception) -> httpx.Response:
    """What a call answers in which this goes wrong."""
    app = FastAPI()
    add_problem_handlers(app)

    @app.get("/")
    def fail() -> None:
        raise error

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/")

    with structlog.testing.capture_logs():  # as long as logs are not configured, a trace is printed with all variables
        return asyncio.run(ask())


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RuntimeError("INSERT INTO secrets"), 500, "internal_error"),
        (DataError("INSERT INTO secrets", None, SECRET), 422, "unstorable_value"),
        (OperationalError("INSERT INTO secrets", None, SECRET), 503, "part_is_away"),
        (RedisError("INSERT INTO secrets"), 503, "part_is_away"),
        (DatabaseError("INSERT INTO secrets", None, SECRET), 503, "part_is_away"),
        (IntegrityError("INSERT INTO secrets", None, SECRET), 500, "internal_error"),
        (ProgrammingError("INSERT INTO secrets", None, UndefinedTable()), 503, "database_not_migrated"),
    ],
)
def test_what_goes_wrong_inside_is_a_problem_without_details(error: Exception, status: int, code: str) -> None:
    answer = answer_to(error)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert ("retry-after" in answer.headers) == (status == 503)
    assert "secrets" not in answer.text


def asked(folder: Path, path: str) -> httpx.Response:
    """A whole API on this folder; its Redis is away."""
    app = create_app(Settings(data_dir=folder, redis_url="redis://127.0.0.1:1"))

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            return await client.get(path)

    answer = asyncio.run(ask())
    app.state.database.dispose()
    return answer


def test_a_database_without_tables_is_a_503_that_says_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "ctp.db").touch()
    answer = asked(tmp_path, "/kbs")
    assert (answer.status_code, answer.json()["code"]) == (503, "database_not_migrated")
    assert "ctp migrate" in answer.json()["detail"]


def damage(file: Path) -> None:
    """All but the first page, which says what is where."""
    size = file.stat().st_size
    with file.open("r+b") as content:
        content.seek(4096)
        content.write(b"\xff" * (size - 4096))


def test_a_damaged_database_is_a_503_that_says_so(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'ctp.db'}")
    migrate(database.engine)
    database.dispose()
    damage(tmp_path / "ctp.db")
    answer = asked(tmp_path, "/kbs")
    assert (answer.status_code, answer.json()["code"]) == (503, "database_damaged")


def test_a_process_that_met_damage_is_not_ready_although_other_places_are_whole(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'ctp.db'}")
    migrate(database.engine)
    assert _database(database)["database"] == "ok"
    (tmp_path / "torn.db").write_bytes(b"no database " * 1000)
    with database.engine.connect() as connection, pytest.raises(DatabaseError):
        connection.exec_driver_sql(f"ATTACH '{tmp_path / 'torn.db'}' AS torn")
        connection.exec_driver_sql("SELECT * FROM torn.sqlite_master")
    assert _database(database)["database"] == "database_damaged"
    database.dispose()
