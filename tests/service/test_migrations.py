"""The migrations make the tables that the code expects."""

import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine

from service.db.engine import make_engine
from service.db.migrate import check_schema, migrate
from service.db.reach import reaching
from service.db.tables import Table
from service.settings import UserError


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    (tmp_path / "a.db").touch()
    return make_engine(f"sqlite:///{tmp_path}/a.db")


def test_migrations_and_tables_agree(engine: Engine) -> None:
    migrate(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []
    engine.dispose()


def schema(engine: Engine) -> list[tuple[str, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql("SELECT name, sql FROM sqlite_master ORDER BY name")]


def test_migrating_twice_changes_nothing(engine: Engine) -> None:
    migrate(engine)
    first = schema(engine)
    migrate(engine)
    assert schema(engine) == first
    engine.dispose()


def test_an_api_on_a_database_without_tables_says_what_to_run(engine: Engine) -> None:
    with pytest.raises(UserError, match="run `ctp migrate`"):
        check_schema(engine)
    migrate(engine)
    check_schema(engine)
    engine.dispose()


def test_a_database_of_a_newer_version_is_told_as_such(engine: Engine) -> None:
    migrate(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(UserError, match="newer version of ctp"):
        check_schema(engine)
    with pytest.raises(UserError, match="newer version of ctp"), reaching(str(engine.url)):
        migrate(engine)
    engine.dispose()


def test_sqlite_is_set_up_for_several_writers(engine: Engine) -> None:
    with engine.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("foreign_keys", "journal_mode")
        }
    engine.dispose()
    wal_is_safe = sqlite3.sqlite_version_info >= (3, 51, 3)
    assert pragmas == {"foreign_keys": 1, "journal_mode": "wal" if wal_is_safe else "delete"}
