"""The SQL of keys."""

from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import CursorResult, select, update
from sqlalchemy.orm import Session

from service.db.clock import now
from service.db.tables import ApiKey


def find(session: Session, prefix: str) -> ApiKey | None:
    """Finds a key that is not revoked."""
    return session.scalars(select(ApiKey).where(ApiKey.prefix == prefix, ApiKey.revoked_at.is_(None))).one_or_none()


def listing(session: Session) -> Sequence[ApiKey]:
    return session.scalars(select(ApiKey).order_by(ApiKey.created_at, ApiKey.prefix)).all()


def any_usable(session: Session) -> bool:
    return session.scalars(select(ApiKey.prefix).where(ApiKey.revoked_at.is_(None)).limit(1)).first() is not None


def any_ever(session: Session) -> bool:
    return session.scalars(select(ApiKey.prefix).limit(1)).first() is not None


def revoke(session: Session, prefix: str) -> bool:
    """Revokes a key; returns False if there is none, or if it was revoked before."""
    statement = update(ApiKey).where(ApiKey.prefix == prefix, ApiKey.revoked_at.is_(None)).values(revoked_at=now())
    return cast("CursorResult[Any]", session.execute(statement)).rowcount == 1
