"""Gives memory that is free back to the machine.

The allocator of glibc keeps what was freed for later. A process that once held a large body would show its size for
ever, and a machine with several such processes would run out of memory that nobody uses.
"""

import ctypes
import threading

PERIOD_SECONDS = 10.0
LARGE_BYTES = 1024 * 1024
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as in malloc.h


def give_back_large_pieces() -> None:
    """Makes every large piece go back to the machine as soon as it is freed; does nothing where the C library cannot.

    Once glibc has freed a piece of 16 MB, it keeps pieces of that size in the heaps of the threads that ask for them:
    up to 32 MB at the end of each heap, where regular trimming does not reach. A process that computes with tensors
    must not call this, since it would get every tensor from the machine again and again.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(M_MMAP_THRESHOLD, LARGE_BYTES)
        set_option(M_TRIM_THRESHOLD, LARGE_BYTES)


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
