"""Locks on what has no row yet."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session


def lock_name(session: Session, name: str) -> None:
    """Held until the transaction ends. On SQLite every transaction that writes is alone anyway."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))
