"""Schedules the removal of files: noted in the transaction that stops needing them, done by the dispatcher."""

from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import CursorResult, delete, select, update
from sqlalchemy.orm import Session

from service.db.clock import now
from service.db.tables import Removal


def remove_later(session: Session, owner: str, seconds: float = 0.0) -> None:
    """Schedules the files under `owner` for removal in `seconds`; until then a query or a lost worker may use them."""
    session.add(Removal(owner=owner, due_at=now() + seconds))


def due(session: Session, limit: int) -> Sequence[Removal]:
    return session.scalars(select(Removal).where(Removal.due_at <= now()).order_by(Removal.number).limit(limit)).all()


def done(session: Session, removal: Removal) -> None:
    session.execute(delete(Removal).where(Removal.number == removal.number))


def put_off(session: Session, removal: Removal, seconds: float) -> None:
    session.execute(update(Removal).where(Removal.number == removal.number).values(due_at=now() + seconds))


def keep(session: Session, owner: str) -> bool:
    """Cancels the removal: the files are needed after all. Returns False if they are gone already."""
    kept = session.execute(delete(Removal).where(Removal.owner == owner))
    return cast("CursorResult[Any]", kept).rowcount > 0
