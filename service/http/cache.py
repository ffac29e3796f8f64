"""A short-lived cache of look-ups in the database, so that not every query has to ask it."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
CACHE_SECONDS = 2.0
MAX_KEYS = 10_000
THREADS = 4
Run = Callable[[K, Callable[[], V]], Awaitable[V]]


class Cache(Generic[K, V]):
    """Looks up each key in a thread and remembers the answer for a while; errors are not remembered.

    Callers that ask during a look-up share it. Otherwise hundreds of simultaneous calls would all repeat the look-up
    of the same key whenever its answer expires.
    """

    def __init__(self, look_up: Callable[[K], V], seconds: float = CACHE_SECONDS, run: Run[K, V] | None = None) -> None:
        """`run` says where a key is looked up; the default is threads of this cache alone, first come, first served."""
        self._look_up, self._seconds, self._run = look_up, seconds, run or self._in_a_thread
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="look-up")
        self._known: OrderedDict[K, tuple[float, asyncio.Future[V]]] = OrderedDict()  # the last used is the last

    async def get(self, key: K, *, fresh: bool = False) -> V:
        """Returns the remembered answer, or a new one if `fresh`; raises what the look-up raises."""
        asked = time.monotonic()
        found = self._known.get(key)
        # One that is under way is not asked again: a part that hangs would take all threads.
        if found is None or fresh or (asked - found[0] >= self._seconds and found[1].done()):
            looking = asyncio.ensure_future(self._run(key, partial(self._look_up, key)))
            found = self._known[key] = (asked, looking)
            found[1].add_done_callback(lambda task: self._forget_error(key, task))
        self._known.move_to_end(key)
        if len(self._known) > MAX_KEYS:  # who sends many keys must not make those of others be looked up again
            self._known.popitem(last=False)
        # A caller that is cancelled must not cancel the look-up for the others.
        return await asyncio.shield(found[1])

    async def _in_a_thread(self, _: K, look_up: Callable[[], V]) -> V:
        return await asyncio.get_running_loop().run_in_executor(self._threads, look_up)

    def _forget_error(self, key: K, task: asyncio.Future[V]) -> None:
        known = self._known.get(key)
        if (task.cancelled() or task.exception() is not None) and known is not None and known[1] is task:
            del self._known[key]
