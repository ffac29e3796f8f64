"""Ends jobs: each end is one transaction, and the last child of a job with several seeds also ends its parent.

Parents are locked before their children, so that two children that end at the same time see each other's end.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from ctp_core.base.config import BaseConfig
from ctp_core.base.progress import Trial
from ctp_core.rules import Rule
from service.db.bulk import insert_rows
from service.db.clock import now
from service.db.tables import Checkpoint, Job, Metric, ModelVersion, PredictionFile, RuleRow
from service.files.removals import remove_later
from service.training import repository
from service.training.repository import ACTIVE, PREDICT, TERMINAL, TRAIN, Claim
from service.training.retention import DECIDING_METRICS, keep_checkpoints

RULE_COLUMNS = tuple(column.key for column in RuleRow.__table__.columns if column.key not in ("model_id", "position"))

CHUNK_RULES = 2000  # that one transaction writes: others wait for it
UNSAID = {"approximate": False}  # of rules that an earlier version left in the result of a job; other columns are null


@dataclass(frozen=True)
class Trained:
    """The result of a training; its files are already stored and checked under `artifact`."""

    artifact: str
    num_bytes: int
    staged_rules: str | None = None  # the invisible version that has the rules of a child (`models.staging`), if any
    config: BaseConfig | None = None  # with the settings that were chosen; without it, those of the job are the model's
    trials: Sequence[Trial] = ()
    progress: Mapping[str, Any] | None = None  # the last one; None if this attempt only saved what an earlier trained
    metrics: Mapping[str, float] = field(default_factory=dict)  # of the finished model, beside those of its best epoch


def checkpoint_owner(job_id: str) -> str:
    return f"jobs/{job_id}"


def model_owner(model_id: str) -> str:
    return f"models/{model_id}"


def prediction_owner(job_id: str) -> str:
    return f"predictions/{job_id}"


# Endings


def succeed(session: Session, claim: Claim, trained: Trained) -> None:
    job = repository.lock(session, claim.job_id)
    metrics, loss = best_epoch(repository.metrics(session, job.id, 0))
    result = {
        "artifact": trained.artifact,
        "artifact_bytes": trained.num_bytes,
        "metrics": {**metrics, **trained.metrics},
        "loss": loss,
        "staged_rules": trained.staged_rules,
        "config": job.config if trained.config is None else trained.config.model_dump(mode="json"),
        "trials": [asdict(trial) for trial in trained.trials],
    }
    ended = {"status": "succeeded", "finished_at": now(), "lease_expires_at": None, "result": result}
    if trained.progress is not None:
        ended["progress"] = dict(trained.progress)
    repository.write_held(session, claim, **ended)
    keep_checkpoints(session, job.id)
    _settle(session, job)


def answered(session: Session, claim: Claim, figures: Mapping[str, Any], progress: Mapping[str, Any]) -> None:
    """Ends an evaluation or a prediction with its figures."""
    ended = {"status": "succeeded", "finished_at": now(), "lease_expires_at": None}
    repository.write_held(session, claim, **ended, result=dict(figures), progress=dict(progress))


def fail(session: Session, claim: Claim, error: Mapping[str, Any]) -> None:
    job = repository.lock(session, claim.job_id)
    ended = {"status": "failed", "finished_at": now(), "lease_expires_at": None, "error": dict(error)}
    repository.write_held(session, claim, **ended)
    _drop_files(session, job, 0.0)
    _settle(session, job)


def cancel(session: Session, job: Job, lease_seconds: float) -> bool:
    """Cancels a job and its children; returns False if it had already ended.

    A worker that runs it notices within seconds; files that it writes until then are removed with the others.
    """
    job = repository.lock(session, job.id)
    if job.status in TERMINAL:
        return False
    for ended in (*repository.children(session, [job])[job.id], job):
        if ended.status == "queued" and not ended.has_children:
            repository.ring(session, ended)  # makes the dispatcher take its message out of the queue
        _end(session, ended, "cancelled")
        _drop_files(session, ended, lease_seconds)
    _settle(session, job)
    return True


def unsettled(session: Session) -> Sequence[Job]:
    """Returns active parents whose children have all ended, as left behind by a faulty older version."""
    waiting = select(Job.parent_id).where(Job.parent_id.is_not(None), Job.status.in_(ACTIVE))
    statement = select(Job).where(Job.has_children, Job.status.in_(ACTIVE), Job.id.not_in(waiting))
    return session.scalars(statement).all()


def settle(session: Session, parent: Job) -> bool:
    """Ends a parent whose children have all ended; returns False if its model must be given more rules before."""
    return _settle_parent(session, repository.lock(session, parent.id))


# Steps of endings


def _end(session: Session, job: Job, status: str) -> None:
    """Sets the final status of a job, unless it has ended already."""
    statement = update(Job).where(Job.id == job.id, Job.status.not_in(TERMINAL))
    session.execute(statement.values(status=status, finished_at=now(), lease_expires_at=None))


def _drop_files(session: Session, job: Job, seconds: float) -> None:
    """Drops the checkpoints, the model files and the result of a job; the files are removed after `seconds`."""
    job.result = None
    if job.type == PREDICT:
        session.execute(delete(PredictionFile).where(PredictionFile.job_id == job.id))
        remove_later(session, prediction_owner(job.id), seconds)
    if job.type != TRAIN:
        return
    session.execute(delete(Checkpoint).where(Checkpoint.job_id == job.id))
    remove_later(session, checkpoint_owner(job.id), seconds)
    remove_later(session, f"{model_owner(job.model_id)}/{job.id}", seconds)


def _settle(session: Session, job: Job) -> None:
    """Applies the end of a job to its parent, or to its model version if it has no parent."""
    if job.type != TRAIN:
        return  # the model stays as it is
    if job.parent_id is not None:
        _settle_parent(session, session.get_one(Job, job.parent_id))
        return
    session.refresh(job)
    if job.status == "succeeded":
        _register(session, job)
    else:
        _end_model(session, job.model_id, job.status)


def _settle_parent(session: Session, parent: Job) -> bool:
    """Returns False if only rules keep it from its end: many are given to the model in several transactions."""
    statement = select(Job).where(Job.parent_id == parent.id).order_by(Job.position)
    children = session.scalars(statement.execution_options(populate_existing=True)).all()
    session.refresh(parent)
    if parent.status in TERMINAL or any(child.status not in TERMINAL for child in children):
        return True
    succeeded = [child for child in children if child.status == "succeeded"]
    if succeeded:
        best = min(succeeded, key=lambda child: _rank(child, succeeded))
        staged = (best.result or {}).get("staged_rules")
        if staged is not None and not _take_rules(session, staged, parent.model_id):
            return False
        for child in succeeded:
            if child is not best:
                _drop_files(session, child, 0.0)
        _end(session, parent, "succeeded")
        _register(session, best)
        for child in succeeded:
            child.result = None
        return True
    failed = [child for child in children if child.status == "failed"]
    status = "failed" if failed else "cancelled"
    parent.error = failed[0].error if failed else None
    session.flush()
    _end(session, parent, status)
    _end_model(session, parent.model_id, status)
    return True


def _rank(child: Job, others: Sequence[Job]) -> tuple[float, float, int]:
    """Ranks a child, smaller is better: by the deciding validation metric, the training loss, then its position."""
    results = [other.result or {} for other in others]
    shared = [name for name in DECIDING_METRICS if all(name in result["metrics"] for result in results)]
    result = child.result or {}
    metric = result["metrics"][shared[0]] if shared else 0.0
    return (-metric, result["loss"] if result["loss"] is not None else float("inf"), child.position)


def best_epoch(rows: Sequence[Metric]) -> tuple[dict[str, float], float | None]:
    """Returns the validation metrics of the epoch whose weights the trainer keeps, and the last training loss.

    Trainers that report a validation loss keep the epoch with the lowest one, the others that with the best metric; a
    tie goes to the later epoch. Trainers without a training loss add to one model, epoch by epoch: the last one counts.
    """
    evaluated = [row for row in rows if row.values]
    loss = rows[-1].loss if rows else None
    if not evaluated:
        return {}, loss
    if evaluated[-1].loss is None:
        return dict(evaluated[-1].values), None
    name = next((name for name in DECIDING_METRICS if name in evaluated[-1].values), None)

    def quality(row: Metric) -> tuple[float, int]:
        if "loss" in row.values:
            return -row.values["loss"], row.epoch
        return row.values.get(name, float("-inf")) if name else 0.0, row.epoch

    return dict(max(evaluated, key=quality).values), loss


def _register(session: Session, job: Job) -> None:
    result = job.result or {}
    values = {key: result[key] for key in ("artifact", "artifact_bytes", "metrics")}
    # A child that ended in an earlier version has neither trials nor a config of its own.
    values |= {"trials": result.get("trials", []), "config": result.get("config", job.config)}
    _end_model(session, job.model_id, "ready", **values, trained_by=job.id, ready_at=now())
    add_rules(session, job.model_id, result.get("rules", []))  # only what ended in an earlier version has them here
    job.result = None


def _take_rules(session: Session, staged: str, model_id: str) -> bool:
    """Gives a chunk of the rules of a staged version to a model that is not ready; returns True if it has them all.

    40,000 rules at once kept SQLite from other writes for 2 s on a busy machine.
    """
    places = select(func.min(RuleRow.position), func.max(RuleRow.position)).where(RuleRow.model_id == staged)
    first, last = session.execute(places).one()
    if first is not None:
        some = RuleRow.position.between(first, first + CHUNK_RULES - 1)
        session.execute(update(RuleRow).where(RuleRow.model_id == staged, some).values(model_id=model_id))
        if last >= first + CHUNK_RULES:
            return False
    session.execute(delete(ModelVersion).where(ModelVersion.id == staged))
    return True


def rule_values(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Returns what is stored of rules. This takes longer than to write it: do it before the transaction begins."""
    return [{"rule_id": rule.id, "predicate": rule.predicate, "text": rule.text, **rule.values()} for rule in rules]


def add_rules(session: Session, model_id: str, rules: Sequence[Mapping[str, Any]], first: int = 0) -> None:
    """Adds rules to a model, at the positions from `first` on.

    Inserts past the ORM, which would hold the lock on the database twice as long.
    """
    rows = [
        (model_id, position, *(_stored(rule.get(column, UNSAID.get(column))) for column in RULE_COLUMNS))
        for position, rule in enumerate(rules, first)
    ]
    insert_rows(session, RuleRow, ("model_id", "position", *RULE_COLUMNS), rows)


def _stored(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def _end_model(session: Session, model_id: str, status: str, **values: Any) -> None:
    statement = update(ModelVersion).where(ModelVersion.id == model_id, ModelVersion.status == "pending")
    session.execute(statement.values(status=status, **values))
