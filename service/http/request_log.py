"""Gives every request an id, a line in the log and its share in the metrics."""

import random
import re
import time

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.health.counters import LATENCY, REQUESTS

log = structlog.get_logger()
HEADER = "X-Request-Id"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# Machines call these every few seconds: their lines would bury all others.
QUIET = {"/healthz", "/readyz", "/metrics"}


class Observed:
    """The outermost middleware. The queue passes `ctp.request_id` on to the worker, which logs it too."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request_id = scope["ctp.request_id"] = given if _ID.fullmatch(given) else _new_id()
        status = 500
        started = time.perf_counter()

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self.app(scope, receive, noting)
            finally:
                self._note(scope, status, time.perf_counter() - started)

    @staticmethod
    def _note(scope: Scope, status: int, seconds: float) -> None:
        # The route's template rather than the path: one counter per id would grow without limit.
        route = getattr(scope.get("route"), "path", "other")
        REQUESTS.labels(scope["method"], route, status).inc()
        LATENCY.labels(scope["method"], route).observe(seconds)
        if scope["path"] not in QUIET:
            log.info(
                "request", method=scope["method"], path=scope["path"][:200], status=status, ms=round(seconds * 1000, 1)
            )


def _new_id() -> str:
    """Makes a random id; it is not a secret, so the operating system is not asked for entropy on every request."""
    return f"{random.getrandbits(128):032x}"
