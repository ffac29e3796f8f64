"""Locks by name, for things that have no row to lock yet."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session


def lock_name(session: Session, name: str) -> None:
    """Locks the name until the transaction ends. SQLite runs writing transactions one at a time anyway."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))
