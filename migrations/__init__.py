"""The schema's history, for Alembic."""
