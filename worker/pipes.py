"""The pipes between a child process and its parent: a child's replies, and a parent that waits, but not for ever."""

import math
import os
import select
import sys
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")
# A training fills about a gigabyte a second: it may exceed its limit by what it fills between two looks.
LOOK_SECONDS = 0.1
LEAST_PIECES = 20
STDIN = 0
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
