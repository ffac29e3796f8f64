"""Migrates a database to the newest schema, and checks that it has it."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

import migrations
from service.db.engine import AWAY_ERRORS, sqlite_file, wait_for_ever
from service.db.faults import NEWER, NOT_MIGRATED
from service.settings import UserError

# An arbitrary constant: processes that migrate the same PostgreSQL database wait for each other on it.
MIGRATION_LOCK = 0x6374_7000
WITH_FILES = "0009"  # facts can be in files; after it, they can be nowhere else


def alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    return config


def migrate(engine: Engine) -> bool:
    """Migrates to the newest schema; safe to call at any time and from several processes.

    Returns False, and stops short of the newest, while facts are still stored in rows: `service.preparing` moves them.
    Creates the file of an SQLite database: nothing else does.
    """
    config = alembic_config()
    file = sqlite_file(engine.url.render_as_string())
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.touch()
    with engine.begin() as connection:
        wait_for_ever(connection)
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
        config.attributes["connection"] = connection
        command.upgrade(config, WITH_FILES)
        if _has_facts_in_rows(connection):
            return False
        command.upgrade(config, "head")
    return True


def _has_facts_in_rows(connection: Connection) -> bool:
    if not inspect(connection).has_table("symbols"):
        return False
    return connection.execute(text("SELECT 1 FROM symbols LIMIT 1")).first() is not None


def check_schema(engine: Engine) -> None:
    """Raises UserError if the schema is not that of this version; a database that is away passes unchecked."""
    revisions = ScriptDirectory.from_config(alembic_config())
    file = sqlite_file(engine.url.render_as_string())
    if file is not None and not file.exists():
        raise UserError(NOT_MIGRATED.detail)
    try:
        with engine.connect() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
    except AWAY_ERRORS:
        return
    known = {revision.revision for revision in revisions.walk_revisions()}
    if found is not None and found not in known:
        raise UserError(NEWER.detail)
    if found != revisions.get_current_head():
        raise UserError(NOT_MIGRATED.detail)
