"""Engines and sessions for SQLite and PostgreSQL."""

import math
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, make_url, select, text
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DisconnectionError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session, sessionmaker

from service.db.faults import DAMAGED, fault_of

BUSY_SECONDS = 30
# A running server accepts connections at once, but a statement may wait for others on a busy machine.
CONNECT_SECONDS, STATEMENT_SECONDS = 5, 60
POOL_SECONDS = 10
LOCK_POLL_SECONDS = 0.005
# In older versions, several writers can corrupt the write-ahead log.
SAFE_WAL_VERSION = (3, 51, 3)
# The database cannot be reached or is overloaded: the same call may succeed later.
AWAY_ERRORS = (OperationalError, InterfaceError, PoolTimeout)


def make_engine(url: str) -> Engine:
    if make_url(url).get_backend_name() == "sqlite":
        return _sqlite_engine(url)
    return _postgresql_engine(url)


def _postgresql_engine(url: str) -> Engine:
    from service.db.deadline import PING_SECONDS, DeadlineConnection  # noqa: PLC0415  needs the driver of PostgreSQL

    limits = {"connect_timeout": CONNECT_SECONDS, "options": f"-c statement_timeout={STATEMENT_SECONDS * 1000}"}
    # Limits that the URL sets itself take precedence.
    own = {key: value for key, value in limits.items() if key not in make_url(url).query}
    engine = create_engine(
        url, pool_pre_ping=True, pool_size=10, max_overflow=20, pool_timeout=POOL_SECONDS, connect_args=own
    )

    @event.listens_for(engine, "do_connect")
    def connect(_: Any, __: Any, arguments: Any, options: Any) -> Any:
        return DeadlineConnection.connect(*arguments, **options)

    @event.listens_for(engine, "checkin")
    def lay_aside(connection: Any, _: Any) -> None:
        # The next statement is the pool's ping, which must answer quickly: a caller waits for it.
        if connection is not None:
            connection.patience = PING_SECONDS

    @event.listens_for(engine, "checkout")
    def hand_out(connection: Any, _: Any, __: Any) -> None:
        connection.patience = STATEMENT_SECONDS

    return engine


def wait_for_ever(connection: Connection) -> None:
    """Lifts the time limits for this transaction: a migration of large tables takes long."""
    if connection.dialect.name == "postgresql":
        driver: Any = connection.connection.driver_connection
        driver.patience = math.inf
        connection.execute(text("SET LOCAL statement_timeout = 0"))


def _sqlite_engine(url: str) -> Engine:
    file = sqlite_file(url)
    engine = create_engine(url)

    @event.listens_for(engine, "do_connect")
    def connect(*_: Any) -> Any:
        # Never creates the file: a database that was taken away must not come back empty. `migrate` creates it.
        where = f"{file.absolute().as_uri()}?mode=rw" if file else ":memory:"
        return sqlite3.connect(where, timeout=BUSY_SECONDS, check_same_thread=False, uri=True)

    @event.listens_for(engine, "checkout")
    def check_file(_: Any, record: Any, __: Any) -> None:
        # A connection goes on reading a file that was removed or replaced; the pool then opens another one.
        if file and _identity(file) != record.info["file"]:
            raise DisconnectionError(f"{file} is not the file that this connection has opened")

    @event.listens_for(engine, "connect")
    def configure(connection: Any, record: Any) -> None:
        record.info["file"] = _identity(file) if file else None
        # Transactions are begun below; the driver would begin them later, at the first write.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        wal = sqlite3.sqlite_version_info >= SAFE_WAL_VERSION
        connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # A deferred transaction that reads first and writes later fails if another one wrote in between.
        if connection.get_execution_options().get("read_only"):
            connection.exec_driver_sql("BEGIN DEFERRED")
        else:
            _begin_immediate(connection)

    return engine


def sqlite_file(url: str) -> Path | None:
    """Returns the file of an SQLite database; None for any other."""
    parsed = make_url(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _begin_immediate(connection: Any) -> None:
    """Tries to take the write lock every few milliseconds, for up to BUSY_SECONDS.

    SQLite's own pauses grow to 100 ms and miss the short gaps that a long load leaves between its transactions.
    """
    driver = connection.connection.driver_connection
    deadline = time.monotonic() + BUSY_SECONDS
    driver.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                driver.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise OperationalError("BEGIN IMMEDIATE", None, error) from error
            time.sleep(LOCK_POLL_SECONDS)
    finally:
        driver.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")


class Database:
    """The engine of a process; each `write` and each `read` is one transaction."""

    def __init__(self, url: str) -> None:
        self.engine = make_engine(url)
        self._damage = threading.Event()
        event.listen(self.engine, "handle_error", self._note_damage)
        self._writers = sessionmaker(self.engine, expire_on_commit=False)
        self._readers = sessionmaker(self.engine.execution_options(read_only=True), expire_on_commit=False)

    def _note_damage(self, context: ExceptionContext) -> None:
        if isinstance(context.original_exception, Exception) and fault_of(context.original_exception) is DAMAGED:
            self._damage.set()

    @property
    def damaged(self) -> bool:
        """Remembered, since reading another place of the same file may find nothing wrong."""
        return self._damage.is_set()

    def twin(self) -> "Database":
        """Returns the same database with connections of its own, for work that must not wait for other work.

        Damage that either finds is known to both.
        """
        twin = Database(self.engine.url.render_as_string(hide_password=False))
        twin._damage = self._damage
        return twin

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Opens a transaction that commits at the end and rolls back on any error."""
        with self._writers.begin() as session:
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Opens a snapshot that takes no write lock."""
        with self._readers() as session:
            yield session

    def dispose(self) -> None:
        self.engine.dispose()


def lock_name(session: Session, name: str) -> None:
    """Locks a name until the transaction ends, for what has no row to lock yet.

    SQLite runs writing transactions one at a time anyway.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))
