"""Files that nothing needs any more: noted in the transaction that stops needing them, removed by the dispatcher."""

from collections.abc import Sequence

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from service.db.clock import now
from service.db.tables import Removal


def remove_later(session: Session, owner: str, seconds: float = 0.0) -> None:
    """Files under `owner` go when the time is up; until then a query or a lost worker may still hold them."""
    session.add(Removal(owner=owner, due_at=now() + seconds))


def due(session: Session, limit: int) -> Sequence[Removal]:
    return session.scalars(select(Removal).where(Removal.due_at <= now()).order_by(Removal.number).limit(limit)).all()


def done(session: Session, removal: Removal) -> None:
    session.execute(delete(Removal).where(Removal.number == removal.number))


def put_off(session: Session, removal: Removal, seconds: float) -> None:
    session.execute(update(Removal).where(Removal.number == removal.number).values(due_at=now() + seconds))


def keep(session: Session, owner: str) -> None:
    """The files are needed after all."""
    session.execute(delete(Removal).where(Removal.owner == owner))
