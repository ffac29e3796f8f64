"""Bounds the calls of one tenant that work at the same time in the threads that all calls share.

Most routes are plain functions, which run in these threads. A thread that makes a long list holds the interpreter's
lock most of the time: a few dozen of them made everybody's queries wait for seconds.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from inspect import iscoroutinefunction
from typing import Any
from weakref import WeakValueDictionary

from fastapi import Depends, Request

from service.errors import TooMany, Unavailable

READING = ("GET", "HEAD")
AT_ONCE = 1  # that read, and as many that write: who sends a body slowly holds up only the writing calls of its tenant
MOST_WAITING = 200


class SharedThreads:
    """Who waits comes in turn."""

    def __init__(self) -> None:
        # A semaphore is forgotten when nobody holds it or waits for it.
        self._places: WeakValueDictionary[tuple[str, bool], asyncio.Semaphore] = WeakValueDictionary()
        self.waiting: Counter[tuple[str, bool]] = Counter()

    @asynccontextmanager
    async def turn(self, tenant: str, method: str) -> AsyncIterator[None]:
        """Waits until the tenant has a place; raises TooMany if too many of its calls wait already."""
        whose = (tenant, method in READING)
        if self.waiting[whose] >= MOST_WAITING:
            raise TooMany("too_many_calls", f"{MOST_WAITING} of your calls already wait: send fewer at once")
        place = self._places.setdefault(whose, asyncio.Semaphore(AT_ONCE))
        self.waiting[whose] += 1
        try:
            await place.acquire()
        finally:
            self.waiting[whose] -= 1
            if not self.waiting[whose]:
                del self.waiting[whose]
        try:
            yield
        finally:
            place.release()


@cache
def _is_async(endpoint: Any) -> bool:
    return iscoroutinefunction(endpoint)


async def _in_turn(request: Request) -> AsyncIterator[None]:
    """Routes that are not plain functions have places of their own, take their turn when they write, or only wait."""
    if _is_async(request.scope["route"].endpoint):
        yield
        return
    threads: SharedThreads = request.app.state.shared_threads
    async with threads.turn(request.scope.get("ctp.tenant", ""), request.method):
        # To ask takes a part of the body, if there is one.
        if request.method in READING and await request.is_disconnected():
            raise Unavailable("caller_gone", "the caller hung up before its turn came: nobody reads this")
        yield


IN_TURN = Depends(_in_turn, scope="function")
