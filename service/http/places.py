"""Bounds the costly calls of each tenant, and gives them threads of their own."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.errors import TooMany
from service.http.turns import Turns

T = TypeVar("T")
DOWNLOAD_THREADS = 2
WAITING_THREADS = 4


class Places:
    """The places that one API process has for one kind of call, and the threads in which such calls work.

    Threads of their own, since a call that needs the default ones may be somebody else's. A tenant works in one of them
    at a time, so that its calls never take all.
    """

    def __init__(self, limit: int, threads: int, code: str, detail: str) -> None:
        """`code` and `detail` are those of the refusal once a tenant holds `limit` places."""
        self.limit, self.code, self.detail = limit, code, detail
        self._turns = Turns(threads, code)
        self._held: Counter[str] = Counter()

    @contextmanager
    def place(self, tenant: str) -> Iterator[None]:
        """Holds a place while the block runs; raises TooMany if the tenant has none left."""
        self.take(tenant)
        try:
            yield
        finally:
            self.give_back(tenant)

    def take(self, tenant: str) -> None:
        if self._held[tenant] >= self.limit:
            raise TooMany(self.code, self.detail)
        self._held[tenant] += 1

    def give_back(self, tenant: str) -> None:
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]

    async def run(self, tenant: str, work: Callable[[], T]) -> T:
        """Runs `work` in one of the threads, after the earlier work of this tenant."""
        return await self._turns.run(tenant, work)

    def stop(self) -> None:
        self._turns.stop()


class PlacedStream(StreamingResponse):
    """A stream that takes over the place of its caller and gives it back when it ends, in whatever way.

    The place is taken before: a stream that has begun cannot be refused any more.
    """

    def __init__(self, places: Places, tenant: str, content: Any, **options: Any) -> None:
        super().__init__(content, **options)
        self._places, self._tenant = places, tenant

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._places.give_back(self._tenant)


@dataclass(frozen=True)
class Download:
    """A file that is made while it is sent."""

    name: str
    media_type: str
    content: Iterator[bytes]
    num_bytes: int | None = None  # if it is known: a reader then notices that an answer broke off


async def download(places: Places, tenant: str, begin: Callable[[], Download]) -> PlacedStream:
    """Takes a place and begins a download in a thread; raises TooMany, or what `begin` raises."""
    places.take(tenant)
    try:
        begun = await places.run(tenant, begin)
    except BaseException:
        places.give_back(tenant)
        raise
    headers = {"Content-Disposition": f'attachment; filename="{begun.name}"', "X-Content-Type-Options": "nosniff"}
    if begun.num_bytes is not None:
        headers["Content-Length"] = str(begun.num_bytes)
    return PlacedStream(places, tenant, begun.content, media_type=begun.media_type, headers=headers)


def downloads(limit: int) -> Places:
    """The downloads that one tenant may have under way in one API process."""
    detail = f"{limit} downloads of yours are under way (CTP_MAX_DOWNLOADS): wait for one to end"
    return Places(limit, DOWNLOAD_THREADS, "too_many_downloads", detail)


def waiting(limit: int) -> Places:
    """The calls of one tenant that may wait for jobs, or ask how they are, in one API process."""
    detail = f"{limit} calls already wait for jobs (CTP_MAX_WAITING_CALLS): end one, or call without `wait`"
    return Places(limit, WAITING_THREADS, "too_many_waiting_calls", detail)
