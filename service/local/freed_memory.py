"""Gives memory that is free back to the machine.

The allocator of glibc keeps what was freed for later. A process that once held a large body would show its size for
ever, and a machine with several such processes would run out of memory that nobody uses.
"""

import ctypes
import threading

PERIOD_SECONDS = 10.0


def give_back_regularly() -> None:
    """Starts a thread that does so while the process lives; does nothing where the C library cannot."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return

    def run() -> None:
        while True:
            threading.Event().wait(PERIOD_SECONDS)
            trim(0)  # without the global lock, as every call by ctypes

    threading.Thread(target=run, name="give-back-memory", daemon=True).start()
