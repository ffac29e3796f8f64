"""What is wrong with a database, for the person who named it."""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic.util.exc import CommandError
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from service.db.faults import NEWER, fault_of
from service.settings import UserError


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Turns an error of the database into one line without its password; for programs that a person has started."""
    try:
        yield
    except CommandError as error:
        # Its only cause here: the migrations of this version do not know the one that the database is at.
        raise UserError(f"{_shown(url)}: {NEWER.detail}") from error
    except (SQLAlchemyError, ImportError) as error:
        fault = fault_of(error)
        if fault is not None:
            raise UserError(f"{_shown(url)}: {fault.detail}") from error
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        detail = f"the database {_shown(url)} cannot be used ({reason}): check CTP_DATABASE_URL, and that it runs"
        raise UserError(detail) from error


def _shown(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return "of CTP_DATABASE_URL"
