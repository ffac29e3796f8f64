"""The settings that were tried for a model; epochs without a loss."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("models", sa.Column("trials", sa.JSON(), server_default="[]", nullable=False))
    with op.batch_alter_table("metrics") as metrics:
        metrics.alter_column("loss", existing_type=sa.Double(), nullable=True)


def downgrade() -> None:
    op.execute("UPDATE metrics SET loss = 0 WHERE loss IS NULL")
    with op.batch_alter_table("metrics") as metrics:
        metrics.alter_column("loss", existing_type=sa.Double(), nullable=False)
    op.drop_column("models", "trials")
