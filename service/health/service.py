"""What is there, part by part."""

from typing import Any

from redis.exceptions import RedisError
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from service.db.clock import now
from service.db.engine import Database
from service.db.tables import Lease
from service.queue import QUERY_QUEUE, TRAIN_QUEUE, alive


def parts(database: Database, redis: Any) -> dict[str, str]:
    """Part -> `ok`, or what is wrong with it."""
    found = dict.fromkeys(("database", "queue", "train_worker", "query_worker", "dispatcher"), "missing")
    try:
        with database.read() as session:
            leader = session.scalar(select(Lease.owner).where(Lease.role == "dispatcher", Lease.expires_at > now()))
            found["database"] = "ok"
            found["dispatcher"] = "ok" if leader else "missing"
    except SQLAlchemyError as error:
        found["database"] = type(error).__name__
    try:
        redis.ping()
        found["queue"] = "ok"
        for role in (TRAIN_QUEUE, QUERY_QUEUE):
            found[f"{role}_worker"] = "ok" if alive(redis, role) else "missing"
    except RedisError as error:
        found["queue"] = type(error).__name__
    return found
