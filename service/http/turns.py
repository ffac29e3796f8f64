"""Threads that tenants share fairly: each has one piece of work in them at a time."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class Turns:
    """Whatever one tenant sends, another waits for at most one piece of it."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        # A lock serves those who wait for it in turn; it is forgotten when nobody holds it or waits.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, tenant: str, work: Callable[[], T]) -> T:
        """Runs `work` in a thread, after the earlier work of this tenant."""
        lock = self._locks.setdefault(tenant, asyncio.Lock())
        await lock.acquire()
        try:
            working = asyncio.get_running_loop().run_in_executor(self._threads, work)
        except BaseException:
            lock.release()
            raise
        # A caller may go away, but its work goes on: only then is it the turn of the next.
        working.add_done_callback(lambda _: lock.release())
        return await asyncio.shield(working)

    def stop(self) -> None:
        self._threads.shutdown(wait=False)
