"""Checks which parts of the service are up."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from service.db.engine import Database
from service.db.faults import DAMAGED, fault_of
from service.files import store_owner
from service.files.storage import Storage, StorageError
from service.leadership import DISPATCHER, leader
from service.queue import BATCH_QUEUE, QUERY_QUEUE, TRAIN_QUEUE, able

States = dict[str, str]
OK, MISSING, SILENT = "ok", "missing", "no answer"
UNABLE = "no process can answer"  # there are workers, but their processes are being started
ANSWER_SECONDS = 4.0
WORKERS = {f"{role}_worker": role for role in (TRAIN_QUEUE, QUERY_QUEUE, BATCH_QUEUE)}
NOT_NEEDED = {f"{BATCH_QUEUE}_worker"}  # trainings and queries do without; evaluations wait for it


class Parts:
    """Checks all parts: each state is `ok` or says what is wrong; the storage is checked only if given."""

    def __init__(self, database: Database, redis: Any, storage: Storage | None = None) -> None:
        self._askers = [
            Asker({"database": SILENT, DISPATCHER: MISSING}, lambda: _database(database)),
            Asker({"queue": SILENT, **dict.fromkeys(WORKERS, MISSING)}, lambda: _queue(redis)),
        ]
        if storage is not None:
            self._askers.append(Asker({"storage": SILENT}, lambda: _storage(database, storage)))

    def states(self) -> States:
        """Asks all parts at once and waits at most ANSWER_SECONDS for the slowest."""
        for asker in self._askers:
            asker.ask()
        deadline = time.monotonic() + ANSWER_SECONDS
        return {part: state for asker in self._askers for part, state in asker.answer(deadline).items()}


class Asker:
    """Checks a part in a thread, one at a time: a call during a check that hangs does not start another."""

    def __init__(self, silent: States, look: Callable[[], States]) -> None:
        self._silent, self._look = silent, look
        self._found = silent
        self._thread = threading.Thread()

    def ask(self) -> None:
        if not self._thread.is_alive():
            self._found = self._silent
            self._thread = threading.Thread(target=self._run, name="health", daemon=True)
            self._thread.start()

    def answer(self, deadline: float) -> States:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return self._found

    def _run(self) -> None:
        self._found = self._silent | self._look()


def _database(database: Database) -> States:
    try:
        with database.read() as session:
            leads = leader(session, DISPATCHER)
    except SQLAlchemyError as error:
        fault = fault_of(error)
        return {"database": fault.code if fault else type(error).__name__}
    return {"database": DAMAGED.code if database.damaged else OK, DISPATCHER: OK if leads else MISSING}


def _queue(redis: Any) -> States:
    try:
        redis.ping()
        workers = {name: _workers(able(redis, role)) for name, role in WORKERS.items()}
    except RedisError as error:
        return {"queue": type(error).__name__}
    return {"queue": OK, **workers}


def _workers(able: list[int]) -> str:
    return (OK if any(able) else UNABLE) if able else MISSING


def _storage(database: Database, storage: Storage) -> States:
    return {"storage": storage_state(database, storage)}


def storage_state(database: Database, storage: Storage) -> str:
    """Returns `ok` or the code of the fault; the owner is compared only if the database answers."""
    try:
        storage.check()
        with suppress(SQLAlchemyError):
            store_owner.check(database, storage)
    except StorageError as error:
        return error.code
    return OK
