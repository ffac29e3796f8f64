"""The files of predictions in bulk."""

import sqlalchemy as sa
from alembic import op

from service.db.clock import now

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "prediction_files",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("artifact", sa.Text(), nullable=False),
        sa.Column("num_bytes", sa.BigInteger(), nullable=False),
        sa.Column("num_rows", sa.Integer(), nullable=False),
        sa.Column("next_step", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), server_default=now(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_prediction_files_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_prediction_files")),
    )


def downgrade() -> None:
    op.execute("DELETE FROM jobs WHERE type = 'predict'")
    op.drop_table("prediction_files")
