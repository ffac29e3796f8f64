"""Limits the calls of each tenant that wait for jobs, and gives them threads of their own."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from service.errors import TooMany

T = TypeVar("T")
THREADS = 4


class Waiting:
    """The waiting places and threads of one API process."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="waiting")
        self._held: Counter[str] = Counter()

    @contextmanager
    def place(self, tenant: str) -> Iterator[None]:
        """Holds a waiting place while the block runs; raises TooMany if the tenant has none left."""
        self.check(tenant)
        self._held[tenant] += 1
        try:
            yield
        finally:
            self._held[tenant] -= 1
            if not self._held[tenant]:
                del self._held[tenant]

    def check(self, tenant: str) -> None:
        if self._held[tenant] >= self.limit:
            detail = (
                f"{self.limit} calls already wait for jobs (CTP_MAX_WAITING_CALLS): end one, or call without `wait`"
            )
            raise TooMany("too_many_waiting_calls", detail)

    async def look(self, look: Callable[[], T]) -> T:
        """Runs `look`, which reads the database, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, look)

    def stop(self) -> None:
        self._threads.shutdown(wait=False)
