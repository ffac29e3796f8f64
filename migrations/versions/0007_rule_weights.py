"""What a rule adds to a score, beside how often it is right."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("rules", sa.Column("weight", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("rules", "weight")
