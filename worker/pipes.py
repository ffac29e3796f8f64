"""The pipes between a child process and its parent: a child's replies, and a parent that waits, but not for ever."""

import math
import os
import select
import struct
import sys
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")
# A training fills about a gigabyte a second: it may exceed its limit by what it fills between two looks.
LOOK_SECONDS = 0.1
LEAST_PIECES = 20
STDIN = 0
LENGTH = struct.Struct("!Q")
PIECE_BYTES = 1024 * 1024
PARENT_GONE = 3  # exit code of a child whose parent has ended


def reply_descriptor() -> int:
    """Returns a descriptor for replies to the parent; anything that a library prints goes to the log from now on."""
    replies = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return replies


class Stream(Protocol):
    def fileno(self) -> int: ...


def silence(stream: Stream, seconds: float, too_long: T, look: Callable[[], T | None] = lambda: None) -> T | None:
    """Waits until there is something to read; returns None then, `too_long` after `seconds`, or what `look` finds.

    Waits in many short pieces: a time in which we were stopped ourselves counts as one piece.
    """
    pieces = max(LEAST_PIECES, math.ceil(seconds / LOOK_SECONDS))
    for _ in range(pieces):
        if select.select([stream], [], [], seconds / pieces)[0]:
            return None
        found = look()
        if found is not None:
            return found
    return too_long


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
