"""Who does not read an answer is cut off: a download would hold its place for ever."""

import asyncio
import socket

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from service.http.server import protocol
from service.settings import Settings

PIECE = b"x" * 65_536
PATIENCE = 30.0


class Endless:
    """An app whose answer never ends, sent in pieces; `cut` is set when the caller is gone."""

    def __init__(self, piece: bytes) -> None:
        self.cut, self.piece = asyncio.Event(), piece

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send))
        while (await receive())["type"] != "http.disconnect":
            pass
        self.cut.set()
        sending.cancel()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": self.piece, "more_body": True})
            await asyncio.sleep(0)


async def cut_off(settings: Settings, piece: bytes) -> bool:
    """Reads nothing of an answer; tells whether the connection was cut off."""
    app, loop = Endless(piece), asyncio.get_running_loop()
    config = Config(app, lifespan="off", log_config=None)
    config.load()
    made = protocol(settings)
    state = ServerState()
    server = await loop.create_server(lambda: made(config=config, server_state=state, app_state={}), "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()) as caller:
        caller.setblocking(False)
        await loop.sock_sendall(caller, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(app.cut.wait(), PATIENCE)
    server.close()
    return app.cut.is_set()


@pytest.mark.parametrize("pieces", [1, 1000])
def test_who_stops_reading_an_answer_is_cut_off_however_large_it_is(pieces: int) -> None:
    settings = Settings(body_seconds=0.2, min_body_bytes_per_second=10**6)
    assert asyncio.run(cut_off(settings, pieces * PIECE))
