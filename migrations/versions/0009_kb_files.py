"""Revisions of KBs and the files that they consist of; what older versions stored in rows is moved after this."""

import sqlalchemy as sa
from alembic import op

from service.db.clock import now

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("kbs", sa.Column("revision", sa.Integer(), server_default="1", nullable=False))
    op.create_table(
        "kb_revisions",
        sa.Column("kb", NUMBER, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("num_facts", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), server_default=now(), nullable=False),
        sa.ForeignKeyConstraint(["kb"], ["kbs.number"], name=op.f("fk_kb_revisions_kb"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("kb", "number", name=op.f("pk_kb_revisions")),
    )
    op.create_table(
        "kb_segments",
        sa.Column("kb", NUMBER, nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("artifact", sa.Text(), nullable=False),
        sa.Column("num_bytes", sa.BigInteger(), nullable=False),
        sa.Column("num_facts", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["kb"], ["kbs.number"], name=op.f("fk_kb_segments_kb"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("kb", "revision", "position", name=op.f("pk_kb_segments")),
    )


def downgrade() -> None:
    op.drop_table("kb_segments")
    op.drop_table("kb_revisions")
    op.drop_column("kbs", "revision")
