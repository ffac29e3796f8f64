"""Runs a migration on the connection that `service.db.migrate` hands over."""

from alembic import context

from service.db.tables import Table

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    # SQLite alters a table by writing it anew.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
