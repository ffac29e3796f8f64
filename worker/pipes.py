"""The pipes of a child process to its parent."""

import os
import sys

STDIN = 0
PARENT_GONE = 3  # exit code of a child whose parent has ended


def reply_descriptor() -> int:
    """Returns a descriptor for replies to the parent; anything that a library prints goes to the log from now on."""
    replies = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return replies
