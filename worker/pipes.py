"""The pipes of a child process to its parent."""

import os
import struct
import sys
from collections.abc import Callable

STDIN = 0
LENGTH = struct.Struct("!Q")
PIECE_BYTES = 1024 * 1024
PARENT_GONE = 3  # exit code of a child whose parent has ended


def reply_descriptor() -> int:
    """Returns a descriptor for replies to the parent; anything that a library prints goes to the log from now on."""
    replies = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return replies


def send(descriptor: int, message: bytes) -> None:
    for part in (LENGTH.pack(len(message)), message):
        left = memoryview(part)
        while left:
            left = left[os.write(descriptor, left) :]


def receive(descriptor: int, wait: Callable[[bool], None]) -> bytes:
    """Returns a message that `send` has written; raises EOFError if its writer has ended.

    Before each piece, `wait` returns when there is something to read, or raises; it hears if the message has begun. A
    writer that stops halfway through a message would otherwise hold us for ever.
    """
    received = bytearray()

    def take(size: int) -> None:
        while len(received) < size:
            wait(bool(received))
            piece = os.read(descriptor, min(size - len(received), PIECE_BYTES))
            if not piece:
                raise EOFError
            received.extend(piece)

    take(LENGTH.size)
    take(LENGTH.size + LENGTH.unpack(received)[0])
    return bytes(memoryview(received)[LENGTH.size :])
