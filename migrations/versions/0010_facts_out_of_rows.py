"""Drops the tables in which older versions kept facts and names, where they are empty.

Otherwise `service.kbs.moving` moves what is in them into files, and drops them then: a migration has no store.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    left = op.get_bind().execute(sa.text("SELECT 1 FROM symbols LIMIT 1")).first()
    if left is None:
        op.drop_table("fact_blocks")
        op.drop_table("symbols")


def downgrade() -> None:
    """Makes the tables anew, empty: what the files hold cannot be read by older versions."""
    op.create_table(
        "symbols",
        sa.Column("kb", NUMBER, nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.Column("num_facts", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["kb"], ["kbs.number"], name=op.f("fk_symbols_kb"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("kb", "role", "position", name=op.f("pk_symbols")),
        sa.UniqueConstraint("kb", "role", "name", name=op.f("uq_symbols_kb")),
    )
    op.create_table(
        "fact_blocks",
        sa.Column("kb", NUMBER, nullable=False),
        sa.Column("ordering", sa.String(length=16), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("subject", "predicate", "object", "position")),
        sa.Column("rows", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["kb"], ["kbs.number"], name=op.f("fk_fact_blocks_kb"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("kb", "ordering", "number", name=op.f("pk_fact_blocks")),
    )
