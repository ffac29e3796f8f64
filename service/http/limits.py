"""Limits on call rate, body size and body speed, as plain ASGI middleware in front of the app."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import Invalid, PayloadTooLarge, ServiceError, TooMany, TooSlow
from service.http.problems import respond
from service.settings import Settings

JSON_TYPE = "application/json"
# Archives of models are larger than any other body; they are written to disk as they arrive.
IMPORT_PATH = "/models/import"
MAX_BUCKETS = 10_000
REFUSALS_PER_SECOND = 50.0  # answers 429 to one tenant; more of them wait for their turn
MAX_REFUSAL_SECONDS = 4.0  # clients give up after five
# Refusals that wait at once: each holds a connection and a few kilobytes.
MAX_TENANT_REFUSALS, MAX_REFUSALS = 500, 2000
CLOSE = (b"connection", b"close")


async def _refuse(error: ServiceError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the error; the server drops the rest of the body."""
    await respond(error.problem(), error.headers)(scope, receive, send)


@dataclass
class Bucket:
    """A token bucket: fills at `rate` tokens a second, holds at most one second's worth; each call takes one token."""

    rate: float
    level: float
    filled: float

    def take(self, now: float) -> float:
        """Returns 0 if the call may go on, otherwise the seconds until it may."""
        self._fill(now)
        if self.level >= 1:
            self.level -= 1
            return 0.0
        return (1 - self.level) / self.rate

    def queue(self, now: float) -> float:
        """Takes a token in advance; returns the seconds until there will be one.

        Not further in advance than MAX_REFUSAL_SECONDS: who stops calling is not made to wait for long afterwards.
        """
        self._fill(now)
        self.level = max(self.level - 1, -MAX_REFUSAL_SECONDS * self.rate)
        return max(0.0, -self.level / self.rate)

    def _fill(self, now: float) -> None:
        self.level = min(self.rate, self.level + (now - self.filled) * self.rate)
        self.filled = now


class RateLimit:
    """Limits the calls per second of each tenant, counted in this process only, and the refusals per second.

    Without the latter, callers that call again at once after a 429 keep the process busy with refusing them.
    """

    def __init__(self, app: ASGIApp, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.app, self.rate, self.clock = app, settings.max_requests_per_second, clock
        self._calls: dict[str, Bucket] = {}
        self._refusals: dict[str, Bucket] = {}
        self.waiting: Counter[str] = Counter()  # refusals by tenant

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant = scope.get("ctp.tenant")
        if tenant is None:
            await self.app(scope, receive, send)
            return

        refusal: list[Message] = []

        async def holding_back(message: Message) -> None:
            if refusal or message.get("status") == TooMany.status:
                refusal.append(message)
            else:
                await send(message)

        now = self.clock()
        if not _bucket(self._calls, tenant, self.rate, now).take(now):
            await self.app(scope, receive, holding_back)
        else:
            detail = f"more than {self.rate:g} requests per second (CTP_MAX_REQUESTS_PER_SECOND): wait and try again"
            await _refuse(TooMany("too_many_requests", detail), scope, receive, holding_back)
        if refusal:  # waits here, where the call has let go of its body and of every place that it held
            await self._pace(tenant, refusal[0])
            for message in refusal:
                await send(message)

    async def _pace(self, tenant: str, start: Message) -> None:
        """Waits for the turn of a refusal; if too many wait already, it goes at once, and closes its connection."""
        if self.waiting[tenant] >= MAX_TENANT_REFUSALS or self.waiting.total() >= MAX_REFUSALS:
            start["headers"] = [*start["headers"], CLOSE]
            return
        self.waiting[tenant] += 1
        try:
            await asyncio.sleep(self.refusal_seconds(tenant))
        finally:
            self.waiting[tenant] -= 1
            if not self.waiting[tenant]:
                del self.waiting[tenant]

    def refusal_seconds(self, tenant: str) -> float:
        """Returns how long the next refusal of a tenant has to wait for its turn."""
        now = self.clock()
        seconds = _bucket(self._refusals, tenant, REFUSALS_PER_SECOND, now).queue(now)
        # At random, so that hundreds of callers do not all come back at the same moment.
        return min(seconds, MAX_REFUSAL_SECONDS * random.uniform(0.5, 1.0))  # noqa: S311  it is not a secret


def _bucket(buckets: dict[str, Bucket], tenant: str, rate: float, now: float) -> Bucket:
    if len(buckets) >= MAX_BUCKETS and tenant not in buckets:
        del buckets[next(iter(buckets))]  # the oldest
    return buckets.setdefault(tenant, Bucket(rate, rate, now))


class HeldBytes:
    """The bytes of JSON bodies in the memory of this process, from their arrival until their calls are answered.

    A tenant's bodies count with the length they declare: were they counted as they arrive, many at once would all get
    half way and be refused. For all tenants together only what has arrived counts, since declaring costs nothing.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.by_tenant: Counter[str] = Counter()
        self.arrived = 0

    def expect(self, tenant: str, num_bytes: int) -> None:
        """Counts bytes that are to arrive; raises TooMany if the tenant then holds too many."""
        self.by_tenant[tenant] += num_bytes
        limit = self.settings.max_tenant_waiting_bytes
        if self.by_tenant[tenant] > limit:
            raise _too_many_bytes(f"your calls under way hold {limit} bytes (CTP_MAX_TENANT_WAITING_BYTES)")

    def take(self, num_bytes: int) -> None:
        """Counts bytes that have arrived; raises TooMany if the process then holds too many."""
        self.arrived += num_bytes
        limit = self.settings.max_waiting_bytes
        if self.arrived > limit:
            raise _too_many_bytes(f"all calls under way hold {limit} bytes (CTP_MAX_WAITING_BYTES)")

    def give_back(self, tenant: str, num_expected: int, num_arrived: int) -> None:
        self.arrived -= num_arrived
        self.by_tenant[tenant] -= num_expected
        if not self.by_tenant[tenant]:
            del self.by_tenant[tenant]


def _too_many_bytes(what: str) -> TooMany:
    return TooMany("too_many_bytes", f"{what}: wait for answers, or send less at once")


class BodyLimit:
    """Refuses bodies that are too large, by their declared or actual length, and bodies that arrive too slowly.

    Bounds also what all JSON bodies hold together, since those are kept in memory until their calls are answered.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings, self.held = app, settings, HeldBytes(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = Body(scope, receive, self.settings, self.held)
        started, refusal = False, None

        async def noting(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            body.check_head()
            await self.app(scope, body.receive, noting)
        except (PayloadTooLarge, TooSlow, Invalid, TooMany) as error:
            if started:
                raise
            refusal = error
        finally:
            body.let_go()
        if refusal is not None:
            await _refuse(refusal, scope, receive, send)


class Body:
    """The body of one request while it is being received."""

    def __init__(self, scope: Scope, receive: Receive, settings: Settings, held: HeldBytes) -> None:
        self._receive, self.settings, self._held = receive, settings, held
        self.headers = Headers(scope=scope)
        self._is_json = self.headers.get("content-type", "").split(";")[0].strip().lower() == JSON_TYPE
        self._tenant: str = scope.get("ctp.tenant", "")
        self._target = scope.get("raw_path", b"") + scope["query_string"]
        self._limit, self._setting = self._chosen_limit(scope["path"])
        self._expected, self._received, self._waited, self._complete = 0, 0, 0.0, False

    def _chosen_limit(self, path: str) -> tuple[int, str]:
        """Returns the limit in bytes and the setting that changes it."""
        settings = self.settings
        if self._is_json:
            return settings.max_json_bytes, "CTP_MAX_JSON_BYTES; a KB can be sent as a file"
        if path == IMPORT_PATH:
            return settings.max_import_bytes, "CTP_MAX_IMPORT_BYTES"
        return settings.max_body_bytes, "CTP_MAX_BODY_BYTES"

    def check_head(self) -> None:
        # Decoded, it would reach the database, which does not accept NUL in strings.
        if b"%00" in self._target:
            raise Invalid("bad_url", "the URL contains a NUL character")
        declared = self.headers.get("content-length", "0")
        if declared.isascii() and declared.isdigit():
            if len(declared) > 18 or int(declared) > self._limit:
                raise self._too_large
            self._expect(int(declared))

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._patience):
                message = await self._receive()
        except TimeoutError:
            raise self._too_slow from None
        self._waited += time.monotonic() - began
        self._received += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._is_json:
            self._held.take(len(message.get("body", b"")))
        if self._received > self._limit:
            raise self._too_large
        self._expect(self._received - self._expected)
        return message

    def _expect(self, num_more: int) -> None:
        if self._is_json and num_more > 0:
            self._expected += num_more
            self._held.expect(self._tenant, num_more)

    def let_go(self) -> None:
        """Tells that the body is not in memory any more."""
        if self._is_json:
            self._held.give_back(self._tenant, self._expected, self._received)

    @property
    def _patience(self) -> float:
        """Returns the seconds left to the sender; only waiting for it counts, and each received byte earns time."""
        earned = self._received / self.settings.min_body_bytes_per_second
        return max(0.0, self.settings.body_seconds + earned - self._waited)

    @property
    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(
            "body_too_large", f"the body is larger than the limit of {self._limit} bytes ({self._setting})"
        )

    @property
    def _too_slow(self) -> TooSlow:
        settings = self.settings
        return TooSlow(
            "body_too_slow",
            f"the body arrived too slowly: after {settings.body_seconds:g} s (CTP_BODY_SECONDS), send at least "
            f"{settings.min_body_bytes_per_second} bytes per second (CTP_MIN_BODY_BYTES_PER_SECOND)",
        )
