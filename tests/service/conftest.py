"""Databases of both kinds."""

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
def new_postgres_url(postgres_server: Postgres) -> Callable[[], str]:
    """Each call makes an empty database on a PostgreSQL server that all tests share."""
    numbers = count(1)

    def create() -> str:
        name = f"test{next(numbers)}"
        engine = make_engine(postgres_server.url)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        url = make_url(postgres_server.url).set(database=name)
        return url.render_as_string(hide_password=False)

    return create


@pytest.fixture
def postgres_database(new_postgres_url: Callable[[], str]) -> Iterator[Database]:
    """With the newest schema."""
    database = Database(new_postgres_url())
    migrate(database.engine)
    yield database
    database.dispose()


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Iterator[Database]:
    """With the newest schema."""
    database = Database(f"sqlite:///{tmp_path / 'ctp.db'}")
    migrate(database.engine)
    yield database
    database.dispose()


@pytest.fixture(params=["sqlite_database", "postgres_database"])
def either_database(request: pytest.FixtureRequest) -> Database:
    """For promises that hold on both."""
    database = request.getfixturevalue(request.param)
    assert isinstance(database, Database)
    return database
