"""A PostgreSQL connection that gives up on a server that hangs, instead of waiting for ever.

Neither the server's statement timeout nor those of TCP help here: a server that hangs does not enforce the first, and
the kernel of its machine goes on acknowledging what it is sent.
"""

import time
from collections.abc import Generator
from typing import Any

import psycopg

PING_SECONDS = 5


class DeadlineConnection(psycopg.Connection[Any]):
    """Closes itself and raises OperationalError if one answer takes longer than `patience` seconds.

    A new connection starts with the short patience of a ping.
    """

    patience: float = PING_SECONDS

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **options: Any) -> Any:
        return super().wait(self._until(time.monotonic() + self.patience, gen), *arguments, **options)

    def _until(self, deadline: float, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Runs `gen` until the deadline; the driver resumes it ten times a second or more, even if nothing arrives."""
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
