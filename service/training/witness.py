"""How long the database has been there without a break, on its own clock."""

import threading

import structlog
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from service.db.clock import now
from service.db.engine import Database

log = structlog.get_logger()


class Witness:
    """Looks at the clock now and then. Two looks more than `gap` apart are a break in between: the database was away
    or hung, this process was stopped, the machine slept. Nobody can say then that a silent worker could have spoken.
    """

    def __init__(self, database: Database, every: float, gap: float) -> None:
        self.database, self.every, self.gap = database, every, gap
        self._seen_at = self._seen_since = float("-inf")

    def watch(self, stop: threading.Event) -> None:
        """In a thread of its own, so that a Redis that is waited for is no break."""
        while not stop.wait(self.every):
            try:
                self.look()
            except SQLAlchemyError as error:
                log.warning("clock_not_seen", error=str(error))

    def look(self) -> None:
        with self.database.read() as session:
            seen_at = session.scalars(select(now())).one()
        if seen_at - self._seen_at > self.gap:
            self._seen_since = seen_at
        self._seen_at = seen_at

    def has_seen(self, seconds: float) -> bool:
        """The database was there all this time, until now."""
        self.look()
        return self._seen_at - self._seen_since >= seconds
