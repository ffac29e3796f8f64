"""How jobs end: each ending is one transaction, and the last child of a job of several seeds ends its parent.

Locks are taken from the parent down, so that two children that end at once do not overlook each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from ctp_core.rules import Rule
from service.db.clock import now
from service.db.tables import Checkpoint, Job, Metric, ModelVersion, RuleRow
from service.files.removals import remove_later
from service.training import repository
from service.training.repository import ACTIVE, TERMINAL, Claim
from service.training.retention import DECIDING_METRICS, keep_checkpoints


@dataclass(frozen=True)
class Trained:
    """What a training has made: its files are in place, checked, under `artifact`."""

    artifact: str
    num_bytes: int
    rules: Sequence[Rule]


def checkpoint_owner(job_id: str) -> str:
    return f"jobs/{job_id}"


def model_owner(model_id: str) -> str:
    return f"models/{model_id}"


# Endings


def succeed(session: Session, claim: Claim, trained: Trained) -> None:
    job = repository.lock(session, claim.job_id)
    metrics, loss = best_epoch(repository.metrics(session, job.id, 0))
    result = {
        "artifact": trained.artifact,
        "artifact_bytes": trained.num_bytes,
        "metrics": metrics,
        "loss": loss,
        "rules": [_rule_values(rule) for rule in trained.rules],
    }
    ended = {"status": "succeeded", "finished_at": now(), "lease_expires_at": None, "result": result}
    repository.write_held(session, claim, **ended)
    keep_checkpoints(session, job.id)
    _settle(session, job)


def fail(session: Session, claim: Claim, error: Mapping[str, Any]) -> None:
    job = repository.lock(session, claim.job_id)
    ended = {"status": "failed", "finished_at": now(), "lease_expires_at": None, "error": dict(error)}
    repository.write_held(session, claim, **ended)
    _drop_files(session, job, 0.0)
    _settle(session, job)


def cancel(session: Session, job: Job, lease_seconds: float) -> bool:
    """Ends a job and its children in whatever state they are; False where it had ended before.

    A worker that still runs it finds its claim gone within seconds; what it may write until then goes with the files.
    """
    job = repository.lock(session, job.id)
    if job.status in TERMINAL:
        return False
    for ended in (*repository.children(session, [job])[job.id], job):
        if ended.status == "queued" and not ended.has_children:
            repository.ring(session, ended)  # so that its message is taken out of the queue
        _end(session, ended, "cancelled")
        _drop_files(session, ended, lease_seconds)
    _settle(session, job)
    return True


def unsettled(session: Session) -> Sequence[Job]:
    """Parents whose children have all ended: only a version that forgot to settle them leaves such."""
    waiting = select(Job.parent_id).where(Job.parent_id.is_not(None), Job.status.in_(ACTIVE))
    statement = select(Job).where(Job.has_children, Job.status.in_(ACTIVE), Job.id.not_in(waiting))
    return session.scalars(statement).all()


def settle(session: Session, parent: Job) -> None:
    _settle_parent(session, repository.lock(session, parent.id))


# Parts of them


def _end(session: Session, job: Job, status: str) -> None:
    """A job that has ended stays as it is."""
    statement = update(Job).where(Job.id == job.id, Job.status.not_in(TERMINAL))
    session.execute(statement.values(status=status, finished_at=now(), lease_expires_at=None))


def _drop_files(session: Session, job: Job, seconds: float) -> None:
    """Checkpoints and whatever model files this job may have written; its result stands on them."""
    job.result = None
    session.execute(delete(Checkpoint).where(Checkpoint.job_id == job.id))
    remove_later(session, checkpoint_owner(job.id), seconds)
    remove_later(session, f"{model_owner(job.model_id)}/{job.id}", seconds)


def _settle(session: Session, job: Job) -> None:
    """What the end of this job means for its model version, and for its parent."""
    if job.parent_id is not None:
        _settle_parent(session, session.get_one(Job, job.parent_id))
        return
    session.refresh(job)
    if job.status == "succeeded":
        _register(session, job)
    else:
        _end_model(session, job.model_id, job.status)


def _settle_parent(session: Session, parent: Job) -> None:
    statement = select(Job).where(Job.parent_id == parent.id).order_by(Job.position)
    children = session.scalars(statement.execution_options(populate_existing=True)).all()
    session.refresh(parent)
    if parent.status in TERMINAL or any(child.status not in TERMINAL for child in children):
        return
    succeeded = [child for child in children if child.status == "succeeded"]
    if succeeded:
        best = min(succeeded, key=lambda child: _rank(child, succeeded))
        for child in succeeded:
            if child is not best:
                _drop_files(session, child, 0.0)
        _end(session, parent, "succeeded")
        _register(session, best)
        for child in succeeded:
            child.result = None
        return
    failed = [child for child in children if child.status == "failed"]
    status = "failed" if failed else "cancelled"
    parent.error = failed[0].error if failed else None
    session.flush()
    _end(session, parent, status)
    _end_model(session, parent.model_id, status)


def _rank(child: Job, others: Sequence[Job]) -> tuple[float, float, int]:
    """Smaller is better: the deciding validation metric, then the training loss, then the order asked for."""
    results = [other.result or {} for other in others]
    shared = [name for name in DECIDING_METRICS if all(name in result["metrics"] for result in results)]
    result = child.result or {}
    metric = result["metrics"][shared[0]] if shared else 0.0
    return (-metric, result["loss"] if result["loss"] is not None else float("inf"), child.position)


def best_epoch(rows: Sequence[Metric]) -> tuple[dict[str, float], float | None]:
    """Validation metrics of the epoch whose weights the trainer keeps, and the training loss of the last.

    Trainers that report a validation loss keep the weights with the least, the others those with the best metric;
    of equals both keep the later.
    """
    evaluated = [row for row in rows if row.values]
    loss = rows[-1].loss if rows else None
    if not evaluated:
        return {}, loss
    name = next((name for name in DECIDING_METRICS if name in evaluated[-1].values), None)

    def quality(row: Metric) -> tuple[float, int]:
        if "loss" in row.values:
            return -row.values["loss"], row.epoch
        return row.values.get(name, float("-inf")) if name else 0.0, row.epoch

    return dict(max(evaluated, key=quality).values), loss


def _register(session: Session, job: Job) -> None:
    result = job.result or {}
    values = {key: result[key] for key in ("artifact", "artifact_bytes", "metrics")}
    _end_model(session, job.model_id, "ready", **values, config=job.config, trained_by=job.id, ready_at=now())
    _add_rules(session, job.model_id, result["rules"])
    job.result = None


def add_rules(session: Session, model_id: str, rules: Sequence[Rule]) -> None:
    _add_rules(session, model_id, [_rule_values(rule) for rule in rules])


def _add_rules(session: Session, model_id: str, rules: Sequence[dict[str, Any]]) -> None:
    rows = [{"model_id": model_id, "position": position, **rule} for position, rule in enumerate(rules)]
    if rows:
        session.execute(insert(RuleRow), rows)


def _end_model(session: Session, model_id: str, status: str, **values: Any) -> None:
    statement = update(ModelVersion).where(ModelVersion.id == model_id, ModelVersion.status == "pending")
    session.execute(statement.values(status=status, **values))


def _rule_values(rule: Rule) -> dict[str, Any]:
    return {"rule_id": rule.id, "predicate": rule.predicate, "text": rule.text, **rule.values()}
