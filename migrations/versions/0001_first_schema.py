"""The first schema."""

import sqlalchemy as sa
from alembic import op

from service.db.clock import now

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.Double(),
            server_default=now(),
            nullable=False,
        ),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("prefix", name=op.f("pk_api_keys")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("route", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("body_sha256", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("headers", sa.JSON(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column(
            "created_at",
            sa.Double(),
            server_default=now(),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("tenant", "route", "key", name=op.f("pk_idempotency_keys")),
    )
    with op.batch_alter_table("idempotency_keys", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_idempotency_keys_created_at"), ["created_at"], unique=False)

    op.create_table(
        "kbs",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("num_facts", sa.Integer(), nullable=False),
        sa.Column("num_entities", sa.Integer(), nullable=False),
        sa.Column("num_predicates", sa.Integer(), nullable=False),
        sa.Column("max_length", sa.Integer(), nullable=False),
        sa.Column("splits", sa.JSON(), nullable=False),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("loading_until", sa.Double(), nullable=True),
        sa.Column(
            "created_at",
            sa.Double(),
            server_default=now(),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_kbs")),
        sa.UniqueConstraint("id", name=op.f("uq_kbs_id")),
        sa.UniqueConstraint("tenant", "name", name=op.f("uq_kbs_tenant")),
    )
    op.create_table(
        "leases",
        sa.Column("role", sa.String(length=32), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("role", name=op.f("pk_leases")),
    )
    op.create_table(
        "models",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("kb_id", sa.String(length=32), nullable=True),
        sa.Column("kb_sha256", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("method", sa.String(length=32), nullable=False),
        sa.Column("preset", sa.String(length=32), nullable=True),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("code_version", sa.String(length=64), nullable=False),
        sa.Column("artifact", sa.Text(), nullable=True),
        sa.Column("artifact_bytes", sa.BigInteger(), nullable=True),
        sa.Column("trained_by", sa.String(length=32), nullable=True),
        sa.Column("origin", sa.JSON(), nullable=True),
        sa.Column(
            "created_at",
            sa.Double(),
            server_default=now(),
            nullable=False,
        ),
        sa.Column("ready_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_models")),
        sa.UniqueConstraint("tenant", "name", "version", name=op.f("uq_models_tenant")),
    )
    with op.batch_alter_table("models", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_models_kb_id"), ["kb_id"], unique=False)
        batch_op.create_index("ix_models_created", ["tenant", "created_at", "id"], unique=False)

    op.create_table(
        "removals",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_removals")),
    )
    with op.batch_alter_table("removals", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_removals_due_at"), ["due_at"], unique=False)

    op.create_table(
        "aliases",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("alias", sa.String(length=64), nullable=False),
        sa.Column("model_id", sa.String(length=32), nullable=False),
        sa.Column(
            "updated_at",
            sa.Double(),
            server_default=now(),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_aliases_model_id")),
        sa.PrimaryKeyConstraint("tenant", "name", "alias", name=op.f("pk_aliases")),
    )
    op.create_table(
        "fact_blocks",
        sa.Column("kb", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("ordering", sa.String(length=16), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("subject", sa.Integer(), nullable=False),
        sa.Column("predicate", sa.Integer(), nullable=False),
        sa.Column("object", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("rows", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["kb"], ["kbs.number"], name=op.f("fk_fact_blocks_kb"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("kb", "ordering", "number", name=op.f("pk_fact_blocks")),
    )
    op.create_table(
        "graphs",
        sa.Column("kb", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("split", sa.String(length=16), nullable=False),
        sa.Column("num_facts", sa.Integer(), nullable=False),
        sa.Column("subject", sa.Integer(), nullable=False),
        sa.Column("object", sa.Integer(), nullable=False),
        sa.Column("label", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["kb"], ["kbs.number"], name=op.f("fk_graphs_kb"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("kb", "number", name=op.f("pk_graphs")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("model_id", sa.String(length=32), nullable=False),
        sa.Column("parent_id", sa.String(length=32), nullable=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("has_children", sa.Boolean(), nullable=False),
        sa.Column("kb_id", sa.String(length=32), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("crashes", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("lease_expires_at", sa.Double(), nullable=True),
        sa.Column("published_at", sa.Double(), nullable=True),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("waiting_for", sa.String(length=16), nullable=True),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column(
            "created_at",
            sa.Double(),
            server_default=now(),
            nullable=False,
        ),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_jobs_model_id")),
        sa.ForeignKeyConstraint(["parent_id"], ["jobs.id"], name=op.f("fk_jobs_parent_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_jobs_model_id"), ["model_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_jobs_parent_id"), ["parent_id"], unique=False)
        batch_op.create_index("ix_jobs_status", ["status", "lease_expires_at"], unique=False)
        batch_op.create_index("ix_jobs_created", ["tenant", "created_at", "id"], unique=False)

    op.create_table(
        "rules",
        sa.Column("model_id", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("rule_id", sa.String(length=16), nullable=False),
        sa.Column("predicate", sa.Text(), nullable=False),
        sa.Column("head", sa.JSON(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("template", sa.String(length=16), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("support", sa.Integer(), nullable=True),
        sa.Column("precision", sa.Double(), nullable=True),
        sa.Column("approximate", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_rules_model_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("model_id", "position", name=op.f("pk_rules")),
    )
    with op.batch_alter_table("rules", schema=None) as batch_op:
        batch_op.create_index("ix_rules_predicate", ["model_id", "predicate"], unique=False)

    op.create_table(
        "symbols",
        sa.Column("kb", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.Column("num_facts", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["kb"], ["kbs.number"], name=op.f("fk_symbols_kb"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("kb", "role", "position", name=op.f("pk_symbols")),
        sa.UniqueConstraint("kb", "role", "name", name=op.f("uq_symbols_kb")),
    )
    op.create_table(
        "checkpoints",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("artifact", sa.Text(), nullable=False),
        sa.Column("num_bytes", sa.BigInteger(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column(
            "created_at",
            sa.Double(),
            server_default=now(),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_checkpoints_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "epoch", name=op.f("pk_checkpoints")),
    )
    op.create_table(
        "metrics",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("loss", sa.Double(), nullable=False),
        sa.Column("values", sa.JSON(), nullable=False),
        sa.Column(
            "created_at",
            sa.Double(),
            server_default=now(),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_metrics_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "epoch", name=op.f("pk_metrics")),
    )
    op.create_table(
        "outbox",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column(
            "created_at",
            sa.Double(),
            server_default=now(),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_outbox_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_outbox")),
    )
    with op.batch_alter_table("outbox", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_outbox_job_id"), ["job_id"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("outbox", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_outbox_job_id"))

    op.drop_table("outbox")
    op.drop_table("metrics")
    op.drop_table("checkpoints")
    op.drop_table("symbols")
    with op.batch_alter_table("rules", schema=None) as batch_op:
        batch_op.drop_index("ix_rules_predicate")

    op.drop_table("rules")
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_index("ix_jobs_created")
        batch_op.drop_index("ix_jobs_status")
        batch_op.drop_index(batch_op.f("ix_jobs_parent_id"))
        batch_op.drop_index(batch_op.f("ix_jobs_model_id"))

    op.drop_table("jobs")
    op.drop_table("graphs")
    op.drop_table("fact_blocks")
    op.drop_table("aliases")
    with op.batch_alter_table("models", schema=None) as batch_op:
        batch_op.drop_index("ix_models_created")
        batch_op.drop_index(batch_op.f("ix_models_kb_id"))

    op.drop_table("removals")
    op.drop_table("models")
    op.drop_table("leases")
    op.drop_table("kbs")
    op.drop_table("idempotency_keys")
    op.drop_table("api_keys")
