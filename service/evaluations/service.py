"""Operations on evaluations: submit, find, show, delete."""

from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy.orm import Session

from ctp_core.kb.knowledge_base import Kind
from ctp_core.methods import METHODS
from service.db.tables import Job, Kb, ModelVersion, Outbox
from service.errors import Conflict, Invalid, NotFound
from service.evaluations import repository
from service.evaluations.schemas import EvaluationOut, EvaluationRequest, EvaluationRow
from service.kbs import service as kbs
from service.models import repository as models_repository
from service.models import service as models
from service.names import new_id
from service.settings import Settings
from service.training.repository import ACTIVE, EVALUATE, model_references
from service.training.service import check_queue


def submit(session: Session, tenant: str, request: EvaluationRequest, settings: Settings) -> Job:
    """Writes the job and its outbox row; raises Invalid for what cannot be evaluated, TooMany if too many wait."""
    check_queue(session, tenant, 1, settings)
    model = models.ready(session, tenant, request.model)
    kb = _kb(session, tenant, model, request.kb)
    _check_fits(model, kb)
    _check_split(model, kb, request.split)
    job = Job(
        id=new_id("job"),
        type=EVALUATE,
        tenant=tenant,
        model_id=model.id,
        kb_id=kb.id,
        config={"split": request.split, "limit": request.limit},
        status="queued",
        progress={},
    )
    session.add(job)
    session.flush()
    session.add(Outbox(job_id=job.id, priority=job.priority))
    session.flush()
    session.refresh(job)
    return job


def _kb(session: Session, tenant: str, model: ModelVersion, reference: str | None) -> Kb:
    """The KB to evaluate on, held so that nobody deletes it before the job is written."""
    if reference is not None:
        return kbs.held(session, tenant, reference)
    own = models_repository.kb_of(session, model)
    if own is None:
        detail = f"the KB of model {model.name}@{model.version} is not on this service: upload it, or name a `kb`"
        raise Conflict("kb_not_here", detail)
    return kbs.held(session, tenant, own.id)


def _check_fits(model: ModelVersion, kb: Kb) -> None:
    """Raises Invalid where a model cannot be asked about a KB: its job would fail later."""
    if kb.kind != model.kind:
        detail = f"{kb.name!r} is a KB of {kb.kind}, and the model one of {model.kind}: name a KB of {model.kind}"
        raise Invalid("other_kind", detail)
    method = METHODS.get((cast(Kind, model.kind), model.method))
    if model.kind == "graphs" or kb.sha256 == model.kb_sha256 or method is None or method.config.on_other_kbs:
        return
    detail = f"a model of method {model.method!r} answers only on the KB that it was trained on: leave out `kb`"
    raise Invalid("bound_to_its_kb", detail)


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
    job = repository.find(session, tenant, evaluation_id)
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
    models, names = model_references(session, jobs), repository.kb_names(session, jobs)
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
