"""The SQL of jobs of every type. Writes of a worker are fenced: they succeed only while its attempt is the newest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, not_, select, tuple_, update
from sqlalchemy.engine import CursorResult
from sqlalchemy.orm import Session, aliased, defer

from service.db.clock import now, recent
from service.db.engine import lock_name
from service.db.tables import Checkpoint, Job, Metric, ModelVersion, Outbox
from service.queue import BATCH_QUEUE, TRAIN_QUEUE

ACTIVE = ("queued", "running")
TERMINAL = ("succeeded", "failed", "cancelled")
TRAIN, EVALUATE, PREDICT = "train", "evaluate", "predict"
BATCH = (EVALUATE, PREDICT)  # types of jobs that ask a model
QUEUES = {TRAIN: TRAIN_QUEUE, EVALUATE: BATCH_QUEUE, PREDICT: BATCH_QUEUE}  # type of a job -> its queue


class LeaseLost(Exception):
    """The job has ended or belongs to another worker: this one must stop and write nothing more."""


@dataclass(frozen=True)
class Claim:
    """A job and the attempt for which a worker holds it."""

    job_id: str
    attempt: int


# Reads


def find(session: Session, tenant: str, job_id: str) -> Job | None:
    return session.scalars(select(Job).where(Job.tenant == tenant, Job.id == job_id)).one_or_none()


@dataclass(frozen=True)
class JobFilter:
    """Which jobs are listed; None matches all."""

    status: str | None = None
    type: str | None = None
    model_id: str | None = None

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        for column, value in ((Job.status, self.status), (Job.type, self.type), (Job.model_id, self.model_id)):
            if value is not None:
                yield column == value


def listing(
    session: Session, tenant: str, wanted: JobFilter, before: tuple[float, str] | None, limit: int
) -> Sequence[Job]:
    """Lists jobs, newest first, without children, which are shown inside their parents."""
    statement = select(Job).where(Job.tenant == tenant, Job.parent_id.is_(None), *wanted.conditions())
    statement = statement.options(defer(Job.result))  # the figures of an evaluation may be many
    if before is not None:
        statement = statement.where(tuple_(Job.created_at, Job.id) < before)
    return session.scalars(statement.order_by(Job.created_at.desc(), Job.id.desc()).limit(limit)).all()


def children(session: Session, parents: Sequence[Job]) -> dict[str, list[Job]]:
    """Returns job id -> children, in the order of the requested seeds."""
    found: dict[str, list[Job]] = {job.id: [] for job in parents}
    statement = select(Job).where(Job.parent_id.in_(found)).order_by(Job.created_at, Job.position)
    for child in session.scalars(statement):
        found[child.parent_id or ""].append(child)
    return found


def model_references(session: Session, jobs: Sequence[Job]) -> dict[str, str]:
    """Returns model id -> `name@version`."""
    wanted = {job.model_id for job in jobs}
    statement = select(ModelVersion.id, ModelVersion.name, ModelVersion.version).where(ModelVersion.id.in_(wanted))
    return {row.id: f"{row.name}@{row.version}" for row in session.execute(statement)}


def num_queued(session: Session, tenant: str) -> int:
    """Counts the tenant's queued jobs, locked until the transaction ends, so that no limit is passed by a race."""
    lock_name(session, f"queued jobs of {tenant}")
    statement = select(func.count()).where(Job.tenant == tenant, Job.status == "queued", Job.has_children.is_(False))
    return session.scalar(statement) or 0


def num_by_status(session: Session) -> dict[str, int]:
    """Counts the jobs of all tenants by status."""
    return {row[0]: row[1] for row in session.execute(select(Job.status, func.count()).group_by(Job.status))}


def metrics(session: Session, job_id: str, after: int, limit: int | None = None) -> Sequence[Metric]:
    """Lists the metrics of the epochs after `after`, in order."""
    statement = select(Metric).where(Metric.job_id == job_id, Metric.epoch > after).order_by(Metric.epoch)
    return session.scalars(statement.limit(limit)).all()


def last_epoch(session: Session, job_id: str) -> int:
    """Returns the last epoch with metrics; 0 if there is none."""
    return session.scalar(select(func.max(Metric.epoch)).where(Metric.job_id == job_id)) or 0


def checkpoints(session: Session, job_id: str) -> Sequence[Checkpoint]:
    """Lists the checkpoints of a job, newest first."""
    statement = select(Checkpoint).where(Checkpoint.job_id == job_id).order_by(Checkpoint.epoch.desc())
    return session.scalars(statement).all()


def next_version(session: Session, tenant: str, name: str) -> int:
    statement = select(func.max(ModelVersion.version)).where(ModelVersion.tenant == tenant, ModelVersion.name == name)
    return (session.scalar(statement) or 0) + 1


# Writes of a worker, each fenced by its claim


def lock_parent(session: Session, job_id: str) -> None:
    """Locks the parent of a job; must come before any write to the job if the parent may be written too.

    Transactions that lock parent and child in different orders would deadlock. On SQLite the transaction is the lock.
    """
    parent_id = session.scalar(select(Job.parent_id).where(Job.id == job_id))
    if parent_id is not None:
        session.execute(select(Job.id).where(Job.id == parent_id).with_for_update())


def lock(session: Session, job_id: str) -> Job:
    """Returns the newest state of a job, locked after its parent."""
    lock_parent(session, job_id)
    statement = select(Job).where(Job.id == job_id).with_for_update()
    return session.scalars(statement.execution_options(populate_existing=True)).one()


def next_in_turn(session: Session, job_types: Sequence[str]) -> str | None:
    """Returns the queued job of the tenant whose last job of these types began longest ago; tenants take turns."""
    other = aliased(Job)
    last = select(func.max(other.started_at)).where(other.tenant == Job.tenant, other.type.in_(job_types))
    turn = func.coalesce(last.scalar_subquery(), 0.0), Job.priority.desc(), Job.created_at, Job.id
    statement = select(Job.id).where(Job.type.in_(job_types), Job.status == "queued", Job.has_children.is_(False))
    return session.scalars(statement.order_by(*turn).limit(1)).first()


def run_by(session: Session, worker: str) -> Job | None:
    """Returns the job that a worker holds."""
    return session.scalars(select(Job).where(Job.status == "running", Job.worker == worker)).first()


def held(claim: Claim) -> ColumnElement[bool]:
    return and_(Job.id == claim.job_id, Job.attempt == claim.attempt, Job.status == "running")


def write_held(session: Session, claim: Claim, *also: ColumnElement[bool], **values: Any) -> None:
    """Updates the job if the claim still holds, and `also` is true; raises LeaseLost otherwise."""
    result = session.execute(update(Job).where(held(claim), *also).values(**values))
    assert isinstance(result, CursorResult)
    if result.rowcount != 1:
        raise LeaseLost(claim.job_id)


def check_held(session: Session, claim: Claim, *, until_commit: bool = False) -> None:
    """Raises LeaseLost if the claim no longer holds; `until_commit` keeps others from taking the job until then."""
    statement = select(Job.id).where(held(claim))
    if session.scalar(statement.with_for_update(read=True) if until_commit else statement) is None:
        raise LeaseLost(claim.job_id)


def record_epoch(session: Session, claim: Claim, progress: dict[str, Any]) -> None:
    """Writes the progress of a job and the metrics of its epoch; a repeated epoch replaces its row."""
    write_held(session, claim, progress=progress)
    row = Metric(
        job_id=claim.job_id,
        epoch=progress["epoch"],
        attempt=claim.attempt,
        loss=progress["loss"],
        values=progress["metrics"],
    )
    session.merge(row)


def record_checkpoint(session: Session, claim: Claim, checkpoint: Checkpoint) -> Checkpoint | None:
    """Adds the row of a checkpoint whose files are stored; returns the row that it replaces, if any."""
    write_held(session, claim, worker=Job.worker)
    replaced = session.get(Checkpoint, (checkpoint.job_id, checkpoint.epoch))
    if replaced is not None:
        session.delete(replaced)
        session.flush()
    session.add(checkpoint)
    session.flush()
    return replaced


def forget_checkpoint(session: Session, checkpoint: Checkpoint) -> None:
    session.execute(
        delete(Checkpoint).where(Checkpoint.job_id == checkpoint.job_id, Checkpoint.epoch == checkpoint.epoch)
    )


# The dispatcher


def unpublished(session: Session, limit: int) -> Sequence[Outbox]:
    return session.scalars(select(Outbox).order_by(Outbox.priority.desc(), Outbox.number).limit(limit)).all()


def ended(session: Session, entries: Sequence[Outbox]) -> set[str]:
    """Returns the ids of the entries' jobs that have ended."""
    wanted = {entry.job_id for entry in entries}
    return set(session.scalars(select(Job.id).where(Job.id.in_(wanted), Job.status.in_(TERMINAL))))


def types(session: Session, entries: Sequence[Outbox]) -> dict[str, str]:
    """Returns job id -> type of the entries' jobs."""
    wanted = {entry.job_id for entry in entries}
    return {row.id: row.type for row in session.execute(select(Job.id, Job.type).where(Job.id.in_(wanted)))}


def mark_published(session: Session, entry: Outbox) -> None:
    session.execute(delete(Outbox).where(Outbox.number == entry.number))
    session.execute(update(Job).where(Job.id == entry.job_id).values(published_at=now()))


def ring(session: Session, job: Job) -> None:
    """Puts a job into the outbox, so that the dispatcher publishes it (again)."""
    session.add(Outbox(job_id=job.id, priority=job.priority))


def forgotten(session: Session, seconds: float) -> Sequence[Job]:
    """Returns the jobs that are still queued although they were published more than `seconds` ago."""
    in_outbox, long_ago = select(Outbox.job_id), not_(recent(Job.published_at, seconds))
    statement = select(Job).where(Job.status == "queued", long_ago, Job.id.not_in(in_outbox))
    return session.scalars(statement).all()
