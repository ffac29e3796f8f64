"""Explains an error of the database to the person who configured it."""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic.util.exc import CommandError
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from service.db.faults import NEWER, fault_of
from service.settings import UserError


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Turns an error of the database into a UserError: one line, without the password of the URL."""
    try:
        yield
    except CommandError as error:
        # Its only cause here is a database at a migration that this version does not know.
        raise UserError(f"{_shown(url)}: {NEWER.detail}") from error
    except (SQLAlchemyError, ImportError) as error:
        fault = fault_of(error)
        if fault is not None:
            raise UserError(f"{_shown(url)}: {fault.detail}") from error
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        remedy = "check CTP_DATABASE_URL, and that the database is running"
        detail = f"the database {_shown(url)} cannot be used ({reason}): {remedy}"
        raise UserError(detail) from error


def _shown(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return "of CTP_DATABASE_URL"
