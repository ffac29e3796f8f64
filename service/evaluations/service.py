"""Operations on evaluations: submit, find, show, delete."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from service import batch
from service.db.tables import Job, Kb, ModelVersion
from service.errors import Conflict, Invalid, NotFound
from service.evaluations.schemas import EvaluationOut, EvaluationRequest, EvaluationRow
from service.models import service as models
from service.settings import Settings
from service.training.repository import ACTIVE, EVALUATE, model_references
from service.training.service import check_queue


def submit(session: Session, tenant: str, request: EvaluationRequest, settings: Settings) -> Job:
    """Writes the job and its outbox row; raises Invalid for what cannot be evaluated, TooMany if too many wait."""
    check_queue(session, tenant, 1, settings)
    model = models.ready(session, tenant, request.model)
    kb = batch.held_kb(session, tenant, model, request.kb)
    _check_split(model, kb, request.split)
    config = {"split": request.split, "limit": request.limit}
    return batch.submit(session, tenant, EVALUATE, model, kb, config)


def _check_split(model: ModelVersion, kb: Kb, split: str) -> None:
    held_out = (model.holdout or {}) if kb.sha256 == model.kb_sha256 else {}
    if split in held_out or kb.splits.get(split):
        return
    known = [*kb.splits, *held_out]
    detail = (
        f"{kb.name!r} has no split {split!r}, only {', '.join(known)}: upload it or train on it with `holdout`, such "
        f'as {{"{split}": 0.1}}, or upload it with a file for {split!r}'
    )
    raise Invalid("no_such_split", detail, splits=known)


def get(session: Session, tenant: str, evaluation_id: str) -> Job:
    job = batch.find(session, tenant, EVALUATE, evaluation_id)
    if job is None:
        detail = f"there is no evaluation {evaluation_id[:80]!r}: GET /evaluations lists yours"
        raise NotFound("evaluation_not_found", detail)
    return job


def delete(session: Session, tenant: str, evaluation_id: str) -> None:
    """Forgets an evaluation; raises Conflict if it has not ended."""
    job = get(session, tenant, evaluation_id)
    if job.status in ACTIVE:
        detail = f"evaluation {job.id!r} is {job.status}: POST /jobs/{job.id}/cancel first"
        raise Conflict("evaluation_active", detail)
    session.delete(job)


def look_up(session: Session, tenant: str, evaluation_id: str) -> EvaluationOut:
    """Returns an evaluation with all its figures."""
    job = get(session, tenant, evaluation_id)
    return EvaluationOut.model_validate({**_values(session, [job])[0], **(job.result or {})})


def listed(session: Session, jobs: Sequence[Job]) -> list[EvaluationRow]:
    return [EvaluationRow.model_validate(values) for values in _values(session, jobs)]


def _values(session: Session, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    models, names = model_references(session, jobs), batch.kb_names(session, {job.kb_id for job in jobs})
    return [
        {
            **{name: value for name, value in vars(job).items() if name != "result"},
            **job.config,
            "model": models[job.model_id],
            "kb": names.get(job.kb_id),
            "metrics": job.progress.get("metrics", {}) if job.status == "succeeded" else {},
            "waiting_for": job.waiting_for if job.status == "running" else None,
        }
        for job in jobs
    ]
