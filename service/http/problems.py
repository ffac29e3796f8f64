"""Turns every error that leaves the service into problem+json."""

from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from redis.exceptions import RedisError
from sqlalchemy.exc import DatabaseError, DataError, IntegrityError, NotSupportedError, ProgrammingError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from ctp_core.errors import CtpError
from service.db.engine import AWAY_ERRORS
from service.db.faults import fault_of
from service.errors import RETRY_AFTER_SECONDS, ServiceError, core_problem, problem, storage_problem
from service.files.storage import StorageError

log = structlog.get_logger()
MEDIA_TYPE = "application/problem+json"
HTTP_CODES = {404: "no_such_route", 405: "method_not_allowed", 400: "bad_request"}
PART_ERRORS = (*AWAY_ERRORS, RedisError, DatabaseError)
# Kinds of DatabaseError that are bugs of ours, unless the database has another version's schema.
OUR_ERRORS = (IntegrityError, ProgrammingError, NotSupportedError)


def respond(body: dict[str, Any], headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(body, body["status"], headers, media_type=MEDIA_TYPE)


def part_is_away(error: Exception) -> JSONResponse:
    """Answers 503: the database or the queue cannot be reached, is overloaded, or is damaged or not migrated."""
    log.warning("part_is_away", error=str(error))
    fault = fault_of(error)
    if fault is not None:
        return respond(problem(503, "Unavailable", fault.code, fault.detail, {}), retry_headers(503))
    detail = "the database or the queue cannot be reached: GET /readyz names the missing part; try again"
    return respond(problem(503, "Unavailable", "part_is_away", detail, {}), retry_headers(503))


def retry_headers(status: int) -> dict[str, str]:
    return {"Retry-After": str(RETRY_AFTER_SECONDS)} if status == 503 else {}


def add_problem_handlers(app: FastAPI) -> None:
    @app.exception_handler(ServiceError)
    async def service_error(_: Request, error: ServiceError) -> JSONResponse:
        return respond(error.problem(), error.headers)

    @app.exception_handler(CtpError)
    async def core_error(_: Request, error: CtpError) -> JSONResponse:
        return respond(core_problem(error))

    @app.exception_handler(StorageError)
    async def storage_error(_: Request, error: StorageError) -> JSONResponse:
        log.warning("storage_failed", error=str(error))
        body = storage_problem(error)
        return respond(body, retry_headers(body["status"]))

    @app.exception_handler(RequestValidationError)
    async def validation_error(_: Request, error: RequestValidationError) -> JSONResponse:
        # The stock handler echoes the input, which may be huge or not encodable (NaN, half a surrogate pair).
        faults = [{"place": ".".join(map(str, f["loc"])), "reason": f["msg"]} for f in error.errors()]
        detail = "; ".join(f"{fault['place']}: {fault['reason']}" for fault in faults)
        return respond(problem(422, "Invalid request", "invalid_request", detail, {"errors": faults}))

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> JSONResponse:
        code = HTTP_CODES.get(error.status_code, "http_error")
        headers = dict(error.headers) if error.headers else None
        return respond(problem(error.status_code, "Request failed", code, str(error.detail), {}), headers)

    @app.exception_handler(DataError)
    async def unstorable(_: Request, error: DataError) -> JSONResponse:
        log.warning("unstorable_value", error=str(error.orig))
        detail = "the database cannot store or compare one of the values: it may contain the character NUL"
        return respond(problem(422, "Invalid request", "unstorable_value", detail, {}))

    async def part_away(request: Request, error: Exception) -> JSONResponse:
        ours = isinstance(error, OUR_ERRORS) and fault_of(error) is None
        return await unexpected(request, error) if ours else part_is_away(error)

    for kind in PART_ERRORS:
        app.add_exception_handler(kind, part_away)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        log.exception("unexpected_error", path=request.url.path, exc_info=error)
        return respond(
            problem(500, "Internal error", "internal_error", "the service failed unexpectedly: its log says why", {})
        )
