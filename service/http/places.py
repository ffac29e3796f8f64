"""Bounds the costly calls of each tenant, and gives them threads of their own."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.errors import TooMany

T = TypeVar("T")


class Places:
    """The places that one API process has for one kind of call, and the threads in which such calls work.

    Threads of their own, since a call that needs the default ones may be somebody else's look-up of a key.
    """

    def __init__(self, limit: int, threads: int, code: str, detail: str) -> None:
        """`code` and `detail` are those of the refusal once a tenant holds `limit` places."""
        self.limit, self.code, self.detail = limit, code, detail
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=code)
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

    async def run(self, work: Callable[[], T]) -> T:
        """Runs `work` in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def stop(self) -> None:
        self._threads.shutdown(wait=False)


class PlacedStream(StreamingResponse):
    """A stream that holds a place from before it begins, when it can still be refused, until it ends in any way."""

    def __init__(self, places: Places, tenant: str, content: Any, **options: Any) -> None:
        super().__init__(content, **options)
        self._places, self._tenant = places, tenant
        places.take(tenant)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._places.give_back(self._tenant)
