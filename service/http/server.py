"""Runs uvicorn with deadlines for callers who send or read slowly: on its own, uvicorn waits for ever."""

import asyncio
import sys
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.local.freed_memory import give_back_large_pieces, give_back_regularly
from service.settings import Settings

KEEP_ALIVE_SECONDS = 30
GRACE_SECONDS = 5
# A thread that parses a large body keeps the global lock for so long while the event loop waits for it, at each of the
# many calls by which a query is answered; the default is 5 ms.
SWITCH_SECONDS = 0.001
MAX_HEAD_BYTES = 64 * 1024


class Deadline(HttpToolsProtocol):
    """Closes a connection whose request head is too large or late.

    The rest of a body that was answered early is read and dropped until the same deadline: closing a connection
    with unread bytes resets it, and the client may lose the answer.

    A connection whose answer is read too slowly is cut: it holds memory, and if it is a download a place.
    """

    settings: ClassVar[Settings]  # given by `protocol`
    _timer: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _in_body = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_reading()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Called when the caller is behind with so many bytes that no more are written."""
        super().pause_writing()
        self._watch_reading()

    def _watch_reading(self) -> None:
        """Looks after a while whether the caller has read enough; cuts the connection if not."""
        before = self.transport.get_write_buffer_size()

        def look() -> None:
            read = before - self.transport.get_write_buffer_size()
            if read < self.settings.body_seconds * self.settings.min_body_bytes_per_second:
                self.transport.abort()
            else:
                self._watch_reading()

        self._reading = self.loop.call_later(self.settings.body_seconds, look)

    def resume_writing(self) -> None:
        self._stop_reading()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._start_timer()
        super().data_received(data)
        if self._timer is not None and not self._in_body:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._give_up()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop_timer()
        self._in_body = False
        super().on_message_complete()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.settings.header_seconds, self._give_up)

    def _stop_timer(self) -> None:
        self._head_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _give_up(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()


def protocol(settings: Settings) -> type[Deadline]:
    """Makes the protocol class with the deadlines of these settings; uvicorn creates one object per connection."""
    return type("DeadlineOfSettings", (Deadline,), {"settings": settings})


def run(settings: Settings) -> None:
    give_back_large_pieces()
    give_back_regularly()
    sys.setswitchinterval(SWITCH_SECONDS)
    uvicorn.run(
        "service.app:create_app",
        factory=True,
        host=settings.host,
        port=settings.port,
        http=protocol(settings),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
