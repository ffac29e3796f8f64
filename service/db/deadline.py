"""A PostgreSQL connection that does not wait for ever: a server that hangs answers nothing, not even that it is gone.

The server's own limit on statements does not help there, nor do those of TCP: the kernel of such a server's machine
goes on acknowledging what it is sent.
"""

import time
from collections.abc import Generator
from typing import Any

import psycopg

PING_SECONDS = 5


class DeadlineConnection(psycopg.Connection[Any]):
    """Gives up, closed, where one answer takes longer than `patience` seconds; a new one asks only small things."""

    patience: float = PING_SECONDS

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **options: Any) -> Any:
        return super().wait(self._until(time.monotonic() + self.patience, gen), *arguments, **options)

    def _until(self, deadline: float, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The same steps; the driver takes one at least ten times a second, whether something has come or not."""
        try:
            state = next(gen)
            while True:
                ready = yield state
                state = gen.send(ready)
                if time.monotonic() > deadline:
                    self.close()
                    raise psycopg.OperationalError(f"the server did not answer within {self.patience:g} seconds")
        except StopIteration as end:
            return end.value
