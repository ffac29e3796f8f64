"""An SQLite file that is taken away and put back while the service runs."""

from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from service.db.engine import Database
from service.db.faults import fault_of
from service.db.migrate import check_schema, migrate
from service.db.tables import Leader
from service.health.service import _database
from service.settings import UserError


def test_a_database_that_is_taken_away_is_missed_and_used_again_when_it_is_back(tmp_path: Path) -> None:
    file, aside = tmp_path / "ctp.db", tmp_path / "aside.db"
    database = Database(f"sqlite:///{file}")
    migrate(database.engine)
    with database.write() as session:
        session.add(Leader(role="dispatcher", owner="somebody", expires_at=1e12))
    assert _database(database) == {"database": "ok", "dispatcher": "ok"}
    file.rename(aside)
    assert _database(database) == {"database": "database_gone"}
    with pytest.raises(OperationalError) as caught, database.write() as session:
        session.execute(select(1))
    fault = fault_of(caught.value)
    assert fault is not None
    assert "put it back" in fault.detail
    assert not file.exists(), "nothing is made in its place"
    aside.rename(file)
    assert _database(database) == {"database": "ok", "dispatcher": "ok"}
    database.dispose()


def test_a_file_that_replaces_another_is_read_at_once(tmp_path: Path) -> None:
    old, new = (Database(f"sqlite:///{tmp_path / name}") for name in ("ctp.db", "backup.db"))
    for database, owner in ((old, "before"), (new, "restored")):
        migrate(database.engine)
        with database.write() as session:
            session.add(Leader(role="dispatcher", owner=owner, expires_at=1e12))
    new.dispose()
    (tmp_path / "backup.db").replace(tmp_path / "ctp.db")
    with old.read() as session:
        assert session.scalar(select(Leader.owner)) == "restored"
    old.dispose()


def test_only_a_migration_makes_the_file(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'deep' / 'ctp.db'}")
    with pytest.raises(UserError, match="ctp migrate"):
        check_schema(database.engine)
    assert not (tmp_path / "deep").exists()
    migrate(database.engine)
    check_schema(database.engine)
    database.dispose()
