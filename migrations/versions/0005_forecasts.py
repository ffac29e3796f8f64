"""Statistics of KBs, forecasts of jobs, and the memory of train workers."""

import sqlalchemy as sa
from alembic import op

from service.db.clock import now

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("kbs", sa.Column("statistics", sa.JSON(), nullable=True))
    op.add_column("jobs", sa.Column("forecast", sa.JSON(), nullable=True))
    op.create_table(
        "train_workers",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("speed", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), server_default=now(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_train_workers")),
    )


def downgrade() -> None:
    op.drop_table("train_workers")
    op.drop_column("jobs", "forecast")
    op.drop_column("kbs", "statistics")
