"""Removes what deleted KBs and abandoned loads left behind, besides whatever else the process does."""

import threading

import structlog
from sqlalchemy.exc import SQLAlchemyError

from service.db.engine import Database
from service.kbs.store import sweep

log = structlog.get_logger()


class Sweeper:
    """A large KB takes seconds to remove: it happens in a thread, one at a time."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._thread = threading.Thread()

    def wake(self) -> None:
        if not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            sweep(self.database)
        except SQLAlchemyError as error:
            # The next time is soon enough.
            log.warning("sweep_failed", error=str(error))
