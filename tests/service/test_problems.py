"""Errors that no call should meet: each is still problem+json, and says nothing of the inside."""

import asyncio

import httpx
import pytest
from fastapi import FastAPI
from redis.exceptions import RedisError
from sqlalchemy.exc import DataError, OperationalError

from service.problems import MEDIA_TYPE, add_problem_handlers

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

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RuntimeError("INSERT INTO secrets"), 500, "internal_error"),
        (DataError("INSERT INTO secrets", None, SECRET), 422, "unstorable_value"),
        (OperationalError("INSERT INTO secrets", None, SECRET), 503, "part_is_away"),
        (RedisError("INSERT INTO secrets"), 503, "part_is_away"),
    ],
)
def test_what_goes_wrong_inside_is_a_problem_without_details(error: Exception, status: int, code: str) -> None:
    answer = answer_to(error)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert ("retry-after" in answer.headers) == (status == 503)
    assert "secrets" not in answer.text
