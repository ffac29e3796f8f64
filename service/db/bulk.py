"""Inserts many rows in the fastest way of each database."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from service.db.tables import Table


def insert_rows(session: Session, table: type[Table], columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Inserts the rows with COPY on PostgreSQL, with one prepared statement on SQLite."""
    if not rows:
        return
    connection = session.connection()
    names = ", ".join(f'"{column}"' for column in columns)
    if connection.dialect.name == "postgresql":
        driver: Any = connection.connection
        with driver.cursor() as cursor, cursor.copy(f"COPY {table.__tablename__} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        return
    places = ", ".join("?" for _ in columns)
    # The names come from our own tables, not from a caller.
    statement = f"INSERT INTO {table.__tablename__} ({names}) VALUES ({places})"  # noqa: S608
    connection.exec_driver_sql(statement, [tuple(row) for row in rows])
