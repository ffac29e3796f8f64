"""The templates that the graphs of a KB need."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("kbs", sa.Column("templates", sa.JSON(), server_default="[]", nullable=False))


def downgrade() -> None:
    op.drop_column("kbs", "templates")
