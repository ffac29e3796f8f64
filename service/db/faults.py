"""What a database's error means where waiting does not help: somebody has to do something."""

import sqlite3
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError


class Fault(NamedTuple):
    """`code` is stable and for programs; `detail` names the remedy."""

    code: str
    detail: str


DAMAGED = Fault("database_damaged", "the database's file is damaged: stop the service and restore it from a copy")
NOT_MIGRATED = Fault("database_not_migrated", "the database has not the tables of this version: run `ctp migrate`")
NEWER = Fault(
    "database_newer",
    "the database was made by a newer version of ctp: install that one, or restore a copy from before the upgrade",
)
UNDEFINED_TABLE, UNDEFINED_COLUMN = "42P01", "42703"


def fault_of(error: Exception) -> Fault | None:
    """None where the same call may succeed later, or where it is we who are wrong."""
    original = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(original, sqlite3.Error):
        code = getattr(original, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return DAMAGED
        undefined = str(original).startswith("no such ") or "has no column" in str(original)
    else:
        undefined = getattr(original, "sqlstate", None) in (UNDEFINED_TABLE, UNDEFINED_COLUMN)
    return NOT_MIGRATED if undefined else None
