"""Faults of a database that do not go away by waiting: somebody has to act."""

import sqlite3
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError


class Fault(NamedTuple):
    """A fault and its remedy: `code` is stable, for programs; `detail` is for people."""

    code: str
    detail: str


DAMAGED = Fault("database_damaged", "the database file is damaged: stop the service and restore the file from a backup")
NOT_MIGRATED = Fault("database_not_migrated", "the database lacks the tables of this version: run `ctp migrate`")
NEWER = Fault(
    "database_newer",
    "the database was made by a newer version of ctp: install that version, or restore an older backup",
)
GONE = Fault(
    "database_gone",
    "the database file is gone or cannot be opened: put it back, or restore it from a backup",
)
READ_ONLY = Fault(
    "database_read_only",
    "the database cannot be written: give the service the right to write the database file and its folder",
)
UNDEFINED_TABLE, UNDEFINED_COLUMN = "42P01", "42703"


def fault_of(error: Exception) -> Fault | None:
    """Returns the fault behind an error; None if the call may succeed later, or if the error is a bug of ours."""
    original = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(original, sqlite3.Error):
        code = getattr(original, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return DAMAGED
        if code == sqlite3.SQLITE_CANTOPEN:
            return GONE
        if code == sqlite3.SQLITE_READONLY:
            return READ_ONLY
        undefined = str(original).startswith("no such ") or "has no column" in str(original)
    else:
        undefined = getattr(original, "sqlstate", None) in (UNDEFINED_TABLE, UNDEFINED_COLUMN)
    return NOT_MIGRATED if undefined else None
