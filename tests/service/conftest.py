"""Databases of both kinds."""

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import make_url, text

from service.db.engine import Database, make_engine
from service.db.migrate import migrate
from service.local.postgres import Postgres, postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def new_postgres_url(postgres_server: Postgres) -> Callable[..., str]:
    """Each call makes a database on a PostgreSQL server that all tests share: an empty one, or a copy of another."""
    numbers = count(1)

    def create(template: str = "template0") -> str:
        name = f"test{next(numbers)}"
        engine = make_engine(postgres_server.url)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
        engine.dispose()
        url = make_url(postgres_server.url).set(database=name)
        return url.render_as_string(hide_password=False)

    return create


# Migrations take a quarter of a CPU second: each kind of database is migrated once and then copied.
@pytest.fixture(scope="session")
def migrated_postgres(new_postgres_url: Callable[..., str]) -> str:
    """The name of a database with the newest schema."""
    database = Database(new_postgres_url())
    migrate(database.engine)
    database.dispose()
    return str(database.engine.url.database)


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with the newest schema."""
    file = tmp_path_factory.mktemp("migrated") / "ctp.db"
    database = Database(f"sqlite:///{file}")
    migrate(database.engine)
    database.dispose()
    return file


@pytest.fixture
def postgres_database(new_postgres_url: Callable[..., str], migrated_postgres: str) -> Iterator[Database]:
    """With the newest schema."""
    database = Database(new_postgres_url(migrated_postgres))
    yield database
    database.dispose()


@pytest.fixture
def sqlite_database(tmp_path: Path, migrated_file: Path) -> Iterator[Database]:
    """With the newest schema."""
    database = Database(f"sqlite:///{shutil.copy(migrated_file, tmp_path / 'ctp.db')}")
    yield database
    database.dispose()


@pytest.fixture(params=["sqlite_database", "postgres_database"])
def either_database(request: pytest.FixtureRequest) -> Database:
    """For promises that hold on both."""
    database = request.getfixturevalue(request.param)
    assert isinstance(database, Database)
    return database
