"""The SQL of jobs. What a worker writes is fenced: it counts only while its attempt is the newest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update
from sqlalchemy.engine import CursorResult
from sqlalchemy.orm import Session

from ctp_core.rules import Rule
from service.db.clock import now
from service.db.tables import Checkpoint, Job, Metric, ModelVersion, Outbox, RuleRow

TERMINAL = ("succeeded", "failed", "cancelled")


class LeaseLost(Exception):
    """Another worker holds the job now, or it was ended: this one must stop and write nothing more."""


@dataclass(frozen=True)
class Claim:
    """A job that this process holds."""

    job_id: str
    attempt: int


def find(session: Session, tenant: str, job_id: str) -> Job | None:
    return session.scalars(select(Job).where(Job.tenant == tenant, Job.id == job_id)).one_or_none()


def listing(session: Session, tenant: str, before: tuple[float, str] | None, limit: int) -> Sequence[Job]:
    """Newest first."""
    statement = select(Job).where(Job.tenant == tenant)
    if before is not None:
        created, job_id = before
        statement = statement.where(or_(Job.created_at < created, and_(Job.created_at == created, Job.id < job_id)))
    return session.scalars(statement.order_by(Job.created_at.desc(), Job.id.desc()).limit(limit)).all()


def next_version(session: Session, tenant: str, name: str) -> int:
    statement = select(func.max(ModelVersion.version)).where(ModelVersion.tenant == tenant, ModelVersion.name == name)
    return (session.scalar(statement) or 0) + 1


def claim(session: Session, job_id: str, worker: str, lease_seconds: float) -> Claim | None:
    """Compare-and-swap from queued to running; None where somebody else was first."""
    statement = (
        update(Job)
        .where(Job.id == job_id, Job.status == "queued")
        .values(
            status="running",
            attempt=Job.attempt + 1,
            worker=worker,
            lease_expires_at=now() + lease_seconds,
            started_at=func.coalesce(Job.started_at, now()),
        )
        .returning(Job.attempt)
    )
    attempt = session.scalar(statement)
    return None if attempt is None else Claim(job_id, attempt)


def held(claim: Claim) -> ColumnElement[bool]:
    return and_(Job.id == claim.job_id, Job.attempt == claim.attempt, Job.status == "running")


def write_held(session: Session, claim: Claim, **values: Any) -> None:
    """Updates the job only where the claim still holds; raises LeaseLost elsewhere."""
    result = session.execute(update(Job).where(held(claim)).values(**values))
    assert isinstance(result, CursorResult)
    if result.rowcount != 1:
        raise LeaseLost(claim.job_id)


def renew(session: Session, claim: Claim, lease_seconds: float) -> None:
    write_held(session, claim, lease_expires_at=now() + lease_seconds)


def cancel_requested(session: Session, claim: Claim) -> bool:
    """Raises LeaseLost where the claim does not hold any more."""
    requested = session.scalar(select(Job.cancel_requested).where(held(claim)))
    if requested is None:
        raise LeaseLost(claim.job_id)
    return requested


def record_epoch(session: Session, claim: Claim, progress: dict[str, Any]) -> None:
    """Progress of the job and the metrics of its epoch; an epoch that is run again replaces its row."""
    write_held(session, claim, progress=progress)
    row = Metric(
        job_id=claim.job_id,
        epoch=progress["epoch"],
        attempt=claim.attempt,
        loss=progress["loss"],
        values=progress["metrics"],
    )
    session.merge(row)


def record_checkpoint(session: Session, claim: Claim, checkpoint: Checkpoint) -> None:
    write_held(session, claim, worker=Job.worker)
    session.merge(checkpoint)


def checkpoints(session: Session, job_id: str) -> Sequence[Checkpoint]:
    """Newest first."""
    return session.scalars(
        select(Checkpoint).where(Checkpoint.job_id == job_id).order_by(Checkpoint.epoch.desc())
    ).all()


def forget_checkpoints(session: Session, job_id: str) -> None:
    session.execute(delete(Checkpoint).where(Checkpoint.job_id == job_id))


def finish(session: Session, claim: Claim, status: str, error: dict[str, Any] | None = None) -> None:
    write_held(session, claim, status=status, error=error, finished_at=now(), lease_expires_at=None)


def end_model(session: Session, model_id: str, status: str, **values: Any) -> None:
    session.execute(update(ModelVersion).where(ModelVersion.id == model_id).values(status=status, **values))


def store_rules(session: Session, model_id: str, rules: Sequence[Rule]) -> None:
    session.add_all(
        RuleRow(
            model_id=model_id,
            position=position,
            rule_id=rule.id,
            predicate=rule.head.predicate,
            head=vars(rule.head),
            body=[vars(atom) for atom in rule.body],
            text=rule.text,
            template=rule.template,
            confidence=rule.confidence,
            support=rule.support,
            precision=rule.precision,
            approximate=rule.approximate,
        )
        for position, rule in enumerate(rules)
    )


def unpublished(session: Session, limit: int) -> Sequence[Outbox]:
    return session.scalars(select(Outbox).order_by(Outbox.priority.desc(), Outbox.number).limit(limit)).all()


def mark_published(session: Session, entry: Outbox) -> None:
    session.execute(delete(Outbox).where(Outbox.number == entry.number))
    session.execute(update(Job).where(Job.id == entry.job_id).values(published_at=now()))


def ring(session: Session, job: Job) -> None:
    """Tells the queue (again) that a job waits."""
    session.add(Outbox(job_id=job.id, priority=job.priority))


def expired(session: Session) -> Sequence[Job]:
    return session.scalars(select(Job).where(Job.status == "running", Job.lease_expires_at < now())).all()


def forgotten(session: Session, seconds: float) -> Sequence[Job]:
    """Jobs that wait although the queue was told of them a while ago."""
    in_outbox = select(Outbox.job_id)
    statement = select(Job).where(Job.status == "queued", Job.published_at < now() - seconds, Job.id.not_in(in_outbox))
    return session.scalars(statement).all()


def take_back(session: Session, job: Job, max_attempts: int) -> None:
    """A job whose worker is silent goes back to the queue, or fails after its last attempt."""
    claim = Claim(job.id, job.attempt)
    if job.attempt < max_attempts:
        write_held(session, claim, status="queued", lease_expires_at=None, worker=None)
        ring(session, job)
        return
    detail = f"the worker was lost {job.attempt} times while it trained this model"
    finish(session, claim, "failed", {"code": "worker_lost", "detail": detail})
    end_model(session, job.model_id, "failed")
