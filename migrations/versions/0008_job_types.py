"""Jobs that evaluate models, beside those that train them, and what a training holds out for that."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("type", sa.String(length=16), server_default="train", nullable=False))
    op.add_column("models", sa.Column("holdout", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("models", "holdout")
    op.execute("DELETE FROM jobs WHERE type <> 'train'")
    op.drop_column("jobs", "type")
