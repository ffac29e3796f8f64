"""Elects a leader: the one process that plays a role for as long as it renews its lease in the database."""

from sqlalchemy import or_, select, update
from sqlalchemy.engine import CursorResult
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service.db.clock import now, over
from service.db.tables import Leader

DISPATCHER = "dispatcher"


def leader(session: Session, role: str) -> str | None:
    return session.scalar(select(Leader.owner).where(Leader.role == role, Leader.expires_at > now()))


def take(session: Session, role: str, owner: str, seconds: float) -> bool:
    """Takes or renews the lease; returns False if another process holds it."""
    mine = update(Leader).where(Leader.role == role, or_(Leader.owner == owner, over(Leader.expires_at, seconds)))
    result = session.execute(mine.values(owner=owner, expires_at=now() + seconds))
    assert isinstance(result, CursorResult)
    if result.rowcount:
        return True
    if session.get(Leader, role) is not None:
        return False
    try:
        with session.begin_nested():
            session.add(Leader(role=role, owner=owner, expires_at=now() + seconds))
    except IntegrityError:
        return False
    return True


def resign(session: Session, role: str, owner: str) -> None:
    """Gives up the lease, so that another process can lead at once."""
    session.execute(update(Leader).where(Leader.role == role, Leader.owner == owner).values(expires_at=0))
