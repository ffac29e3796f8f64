"""Something done again and again beside a block of code."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeated(call: Callable[[], None], seconds: float) -> Iterator[None]:
    """Calls `call` every `seconds` in a thread while the block runs, even if the block hangs."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(seconds):
            call()

    thread = threading.Thread(target=repeat, name="repeated", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
