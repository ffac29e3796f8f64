"""A telephone line to a service, which can be cut: open connections break, and new ones are refused."""

import contextlib
import socket
import threading
from urllib.parse import urlsplit

BLOCK = 65_536


class Line:
    """Relays connections from a port of its own to `url`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        self._target = (parts.hostname, parts.port)
        self._open: set[socket.socket] = set()
        self._whole = True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._whole = False
        for connection in list(self._open):
            _shut(connection)

    def mend(self) -> None:
        self._whole = True

    def close(self) -> None:
        self.cut()
        _shut(self._listener)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if not self._whole:
                    _shut(near)
                    continue
                far = socket.create_connection(self._target)
                for source, sink in ((near, far), (far, near)):
                    self._open.add(source)
                    threading.Thread(target=self._relay, args=(source, sink), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(BLOCK):
                sink.sendall(data)
        self._open.discard(source)
        _shut(source)
        _shut(sink)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
