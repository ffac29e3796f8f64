"""Runs uvicorn with a deadline for the head of a request: on its own, uvicorn waits for ever."""

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.settings import Settings

KEEP_ALIVE_SECONDS = 30
GRACE_SECONDS = 5
MAX_HEAD_BYTES = 64 * 1024


def protocol(settings: Settings) -> type[HttpToolsProtocol]:
    """Makes the protocol class with the deadline of these settings; uvicorn creates one object per connection."""

    class Deadline(HttpToolsProtocol):
        """Closes a connection whose request head is too large or not complete in time."""

        _head_timer: asyncio.TimerHandle | None = None
        _head_bytes = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_came()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
                self._expect_head()
            super().data_received(data)
            if self._head_timer is not None:
                self._head_bytes += len(data)
                if self._head_bytes > MAX_HEAD_BYTES:
                    self._give_up()

        def on_headers_complete(self) -> None:
            self._head_came()
            super().on_headers_complete()

        def _expect_head(self) -> None:
            self._head_timer = self.loop.call_later(settings.header_seconds, self._give_up)

        def _head_came(self) -> None:
            self._head_bytes = 0
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _give_up(self) -> None:
            self._head_timer = None
            if not self.transport.is_closing():
                self.transport.close()

    return Deadline


def run(settings: Settings) -> None:
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
