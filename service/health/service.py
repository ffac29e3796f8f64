"""What is there, part by part."""

from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from service import stores
from service.db.engine import Database
from service.leases import DISPATCHER, leader
from service.queue import QUERY_QUEUE, TRAIN_QUEUE, alive
from service.storage import Storage, StorageError


def parts(database: Database, redis: Any, storage: Storage | None = None) -> dict[str, str]:
    """Part -> `ok`, or what is wrong with it; the storage only where it is given."""
    found = dict.fromkeys(("database", "queue", "train_worker", "query_worker", DISPATCHER), "missing")
    try:
        with database.read() as session:
            leads = leader(session, DISPATCHER)
            found["database"] = "ok"
            found[DISPATCHER] = "ok" if leads else "missing"
    except SQLAlchemyError as error:
        found["database"] = type(error).__name__
    try:
        redis.ping()
        found["queue"] = "ok"
        for role in (TRAIN_QUEUE, QUERY_QUEUE):
            found[f"{role}_worker"] = "ok" if alive(redis, role) else "missing"
    except RedisError as error:
        found["queue"] = type(error).__name__
    if storage is not None:
        found["storage"] = storage_state(database, storage)
    return found


def storage_state(database: Database, storage: Storage) -> str:
    """Whose it is cannot be told without the database, which says so itself."""
    try:
        with suppress(SQLAlchemyError):
            stores.check(database, storage)
    except StorageError as error:
        return error.code
    return "ok"
