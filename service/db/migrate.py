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


def alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    return config


def migrate(engine: Engine) -> bool:
    """Migrates to the newest schema; safe to call at any time and from several processes.

    Returns False if KBs are still stored in rows of an older version: `service.preparing` moves them.
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
        command.upgrade(config, "head")
        return not has_former_tables(connection)


def has_former_tables(connection: Connection) -> bool:
    """Tells whether KBs of an older version are still to be moved out of rows."""
    return inspect(connection).has_table("symbols")


def check_schema(engine: Engine) -> None:
    """Raises UserError if the schema is not that of this version; a database that is away passes unchecked."""
    revisions = ScriptDirectory.from_config(alembic_config())
    file = sqlite_file(engine.url.render_as_string())
    if file is not None and not file.exists():
        raise UserError(NOT_MIGRATED.detail)
    try:
        with engine.connect() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
            is_whole = not has_former_tables(connection)
    except AWAY_ERRORS:
        return
    known = {revision.revision for revision in revisions.walk_revisions()}
    if found is not None and found not in known:
        raise UserError(NEWER.detail)
    if found != revisions.get_current_head() or not is_whole:
        raise UserError(NOT_MIGRATED.detail)
