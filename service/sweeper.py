"""Slow cleaning, besides whatever else the process does."""

import threading
from collections.abc import Callable

import structlog
from sqlalchemy.exc import SQLAlchemyError

from service.files.storage import StorageError

log = structlog.get_logger()


class Sweeper:
    """Work that takes seconds, or as long as a storage that does not answer: in a thread, one at a time."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        self.name, self.work = name, work
        self._thread = threading.Thread()

    def wake(self) -> None:
        if not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self.work()
        except (SQLAlchemyError, StorageError) as error:
            # The next time is soon enough.
            log.warning("sweep_failed", work=self.name, error=str(error))
        except Exception:
            log.exception("sweep_failed", work=self.name)
