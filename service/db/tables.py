"""All tables. Times are seconds since 1970 by the database's clock."""

from typing import Any

from sqlalchemy import JSON, BigInteger, Double, ForeignKey, Index, Integer, MetaData, String, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from service.db.clock import now

NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
# SQLite numbers rows by itself only in a column of type INTEGER.
RowNumber = BigInteger().with_variant(Integer(), "sqlite")


class Table(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {dict[str, Any]: JSON, list[Any]: JSON, float: Double, str: Text}  # noqa: RUF012


class Kb(Table):
    """A knowledge base. Samples have the tenant '' and are visible to everyone.

    Only rows of status `ready` are visible. Rows that are `loading` are given up after `loading_until`; rows that are
    `deleted` are being removed piece by piece. `revision` is the newest one. `statistics` are the counts that forecasts
    need; null in rows of older versions, until they are counted.
    """

    __tablename__ = "kbs"
    __table_args__ = (UniqueConstraint("tenant", "name"),)

    number: Mapped[int] = mapped_column(RowNumber, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(32), unique=True)
    tenant: Mapped[str] = mapped_column(String(64))
    name: Mapped[str] = mapped_column(String(64))
    kind: Mapped[str] = mapped_column(String(16))
    status: Mapped[str] = mapped_column(String(16))
    sha256: Mapped[str] = mapped_column(String(64))
    num_facts: Mapped[int]
    num_entities: Mapped[int]
    num_predicates: Mapped[int]
    max_length: Mapped[int] = mapped_column(default=0)
    templates: Mapped[list[Any]] = mapped_column(default=list, server_default="[]")
    statistics: Mapped[dict[str, Any] | None]
    splits: Mapped[dict[str, Any]]
    warnings: Mapped[list[Any]]
    revision: Mapped[int] = mapped_column(default=1, server_default="1")
    loading_until: Mapped[float | None]
    created_at: Mapped[float] = mapped_column(server_default=now())


class Revision(Table):
    """A state of a KB; it never changes. `number` counts from 1."""

    __tablename__ = "kb_revisions"

    kb: Mapped[int] = mapped_column(RowNumber, ForeignKey("kbs.number", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    num_facts: Mapped[int]
    created_at: Mapped[float] = mapped_column(server_default=now())


class SegmentRow(Table):
    """Files of which a revision consists, in their order: `role` is `base`, `added` or `removed`.

    The files are written and checked before the row is written. Revisions may share them.
    """

    __tablename__ = "kb_segments"

    kb: Mapped[int] = mapped_column(RowNumber, ForeignKey("kbs.number", ondelete="CASCADE"), primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    role: Mapped[str] = mapped_column(String(16))
    artifact: Mapped[str]
    num_bytes: Mapped[int] = mapped_column(BigInteger)
    num_facts: Mapped[int]


class GraphRow(Table):
    """The query pair and the label of one graph of a KB of kind `graphs`.

    The facts of all graphs form one list: those of each graph follow those of the previous one.
    """

    __tablename__ = "graphs"

    kb: Mapped[int] = mapped_column(RowNumber, ForeignKey("kbs.number", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    split: Mapped[str] = mapped_column(String(16))
    num_facts: Mapped[int]
    subject: Mapped[int]
    object: Mapped[int]
    label: Mapped[int]


class ModelVersion(Table):
    """One version of a named model. The row outlives its files, so that no version number is used twice.

    `trials` are the settings that were tried on the KB first, each with what it reached and cost. `trained_by` is the
    job that trained the weights; with several seeds, the job of the best seed. `holdout` are the shares of the KB's
    training data that were held out of this training, if any. `origin` says where
    an imported model comes from.
    """

    __tablename__ = "models"
    __table_args__ = (
        UniqueConstraint("tenant", "name", "version"),
        Index("ix_models_created", "tenant", "created_at", "id"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(64))
    name: Mapped[str] = mapped_column(String(64))
    version: Mapped[int]
    status: Mapped[str] = mapped_column(String(16))
    kb_id: Mapped[str | None] = mapped_column(String(32), index=True)
    kb_sha256: Mapped[str] = mapped_column(String(64))
    kind: Mapped[str] = mapped_column(String(16))
    method: Mapped[str] = mapped_column(String(32))
    preset: Mapped[str | None] = mapped_column(String(32))
    config: Mapped[dict[str, Any]]
    metrics: Mapped[dict[str, Any]]
    trials: Mapped[list[Any]] = mapped_column(default=list, server_default="[]")
    holdout: Mapped[dict[str, Any] | None]
    tags: Mapped[dict[str, Any]]
    code_version: Mapped[str] = mapped_column(String(64))
    artifact: Mapped[str | None]
    artifact_bytes: Mapped[int | None] = mapped_column(BigInteger)
    trained_by: Mapped[str | None] = mapped_column(String(32))
    origin: Mapped[dict[str, Any] | None]
    created_at: Mapped[float] = mapped_column(server_default=now())
    ready_at: Mapped[float | None]


class Job(Table):
    """A training, an evaluation or a prediction (`type`).

    `attempt` is the fencing token: only the worker with the newest may write.

    A job of several seeds has one child per seed and ends when the last child does; no worker ever claims it.
    `crashes` counts the attempts whose worker fell silent. `result` holds what a child has trained until the best child
    is chosen, or the figures of an evaluation. `waiting_for` names the part of the service that a running job is
    waiting for. `forecast` is what the training was expected to cost when it was submitted.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_status", "status", "lease_expires_at"),
        Index("ix_jobs_created", "tenant", "created_at", "id"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(64))
    type: Mapped[str] = mapped_column(String(16), default="train", server_default="train")
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id"), index=True)
    parent_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id"), index=True)
    position: Mapped[int] = mapped_column(default=0)
    has_children: Mapped[bool] = mapped_column(default=False)
    kb_id: Mapped[str] = mapped_column(String(32))
    config: Mapped[dict[str, Any]]
    forecast: Mapped[dict[str, Any] | None]
    status: Mapped[str] = mapped_column(String(16))
    priority: Mapped[int] = mapped_column(default=0)
    attempt: Mapped[int] = mapped_column(default=0)
    crashes: Mapped[int] = mapped_column(default=0)
    worker: Mapped[str | None]
    lease_expires_at: Mapped[float | None]
    published_at: Mapped[float | None]
    progress: Mapped[dict[str, Any]]
    waiting_for: Mapped[str | None] = mapped_column(String(16))
    result: Mapped[dict[str, Any] | None]
    error: Mapped[dict[str, Any] | None]
    created_at: Mapped[float] = mapped_column(server_default=now())
    started_at: Mapped[float | None]
    finished_at: Mapped[float | None]


class TrainWorker(Table):
    """A train worker, the memory that a training has there, and its speed; forgotten when it is silent for long.

    `memory_bytes` is null where the machine does not tell its memory. `speed` is relative to the machine that forecasts
    were measured on.
    """

    __tablename__ = "train_workers"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    speed: Mapped[float]
    seen_at: Mapped[float] = mapped_column(server_default=now())


class Outbox(Table):
    """Jobs that are not in the queue yet; written in the transaction that creates the job."""

    __tablename__ = "outbox"

    number: Mapped[int] = mapped_column(RowNumber, primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    priority: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[float] = mapped_column(server_default=now())


class Removal(Table):
    """Files that nothing needs after `due_at`; written in the transaction that stops needing them."""

    __tablename__ = "removals"

    number: Mapped[int] = mapped_column(RowNumber, primary_key=True, autoincrement=True)
    owner: Mapped[str]
    due_at: Mapped[float] = mapped_column(index=True)


class Store(Table):
    """The store of files that belongs to this database: one row, with the id in the store's mark file.

    `service.files.store_owner` compares the two.
    """

    __tablename__ = "stores"

    number: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(String(32))


class Metric(Table):
    """The loss, where there is one, and the validation metrics of one epoch."""

    __tablename__ = "metrics"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    epoch: Mapped[int] = mapped_column(primary_key=True)
    attempt: Mapped[int]
    loss: Mapped[float | None]
    values: Mapped[dict[str, Any]]
    created_at: Mapped[float] = mapped_column(server_default=now())


class Checkpoint(Table):
    """A saved state of a job; its files are written and checked before the row is written."""

    __tablename__ = "checkpoints"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    epoch: Mapped[int] = mapped_column(primary_key=True)
    attempt: Mapped[int]
    artifact: Mapped[str]
    num_bytes: Mapped[int] = mapped_column(BigInteger)
    metrics: Mapped[dict[str, Any]]
    created_at: Mapped[float] = mapped_column(server_default=now())


class PredictionFile(Table):
    """Some of the rows that a prediction has found, in their order; its files are written before the row is.

    While the job runs it is a part, after which the next attempt goes on from `next_step`. All together are what is
    downloaded when it has ended.
    """

    __tablename__ = "prediction_files"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    artifact: Mapped[str]
    num_bytes: Mapped[int] = mapped_column(BigInteger)
    num_rows: Mapped[int]
    next_step: Mapped[int]
    created_at: Mapped[float] = mapped_column(server_default=now())


class RuleRow(Table):
    """A rule that a model has learnt, decoded at the end of its training."""

    __tablename__ = "rules"
    __table_args__ = (Index("ix_rules_predicate", "model_id", "predicate"),)

    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    rule_id: Mapped[str] = mapped_column(String(16))
    predicate: Mapped[str]
    head: Mapped[dict[str, Any]]
    body: Mapped[list[Any]]
    text: Mapped[str]
    template: Mapped[str] = mapped_column(String(16))
    confidence: Mapped[float]
    weight: Mapped[float | None]  # None for rules of versions that had none
    support: Mapped[int | None]
    precision: Mapped[float | None]
    approximate: Mapped[bool] = mapped_column(default=False)


class Alias(Table):
    """A movable name for a version: `family@champion`."""

    __tablename__ = "aliases"

    tenant: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    alias: Mapped[str] = mapped_column(String(64), primary_key=True)
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id"))
    updated_at: Mapped[float] = mapped_column(server_default=now())


class Leader(Table):
    """The current leader: one row for each role that only one process may play at a time."""

    __tablename__ = "leases"

    role: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str]
    expires_at: Mapped[float]


class IdempotencyKey(Table):
    """The stored answer to a creating call, so that repeating the call creates nothing new."""

    __tablename__ = "idempotency_keys"

    tenant: Mapped[str] = mapped_column(String(64), primary_key=True)
    route: Mapped[str] = mapped_column(String(64), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    body_sha256: Mapped[str] = mapped_column(String(64))
    status: Mapped[int]
    headers: Mapped[dict[str, Any]]
    body: Mapped[dict[str, Any]]
    created_at: Mapped[float] = mapped_column(server_default=now(), index=True)


class ApiKey(Table):
    """An API key, looked up by its public prefix; only a hash of the secret is stored."""

    __tablename__ = "api_keys"

    prefix: Mapped[str] = mapped_column(String(16), primary_key=True)
    secret_sha256: Mapped[str] = mapped_column(String(64))
    tenant: Mapped[str] = mapped_column(String(64))
    role: Mapped[str] = mapped_column(String(16))
    label: Mapped[str] = mapped_column(default="")
    created_at: Mapped[float] = mapped_column(server_default=now())
    revoked_at: Mapped[float | None]
