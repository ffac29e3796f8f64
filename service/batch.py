"""Jobs that ask a model, which stays as it is: what evaluations and predictions share."""

from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from ctp_core.kb.knowledge_base import Kind
from ctp_core.methods import METHODS
from service.db.tables import Job, Kb, ModelVersion, Outbox
from service.errors import Conflict, Invalid
from service.kbs import service as kbs
from service.models import repository as models
from service.names import new_id


def submit(session: Session, tenant: str, job_type: str, model: ModelVersion, kb: Kb, config: Mapping[str, Any]) -> Job:
    """Writes the job and its outbox row."""
    job = Job(
        id=new_id("job"),
        type=job_type,
        tenant=tenant,
        model_id=model.id,
        kb_id=kb.id,
        config=dict(config),
        status="queued",
        progress={},
    )
    session.add(job)
    session.flush()
    session.add(Outbox(job_id=job.id, priority=job.priority))
    session.flush()
    session.refresh(job)
    return job


def held_kb(session: Session, tenant: str, model: ModelVersion, reference: str | None) -> Kb:
    """The KB that a model is asked about, held so that nobody deletes it before the job is written.

    Raises Conflict where the model's own KB is not here, and Invalid where the model cannot be asked about another.
    """
    if reference is None:
        own = models.kb_of(session, model)
        if own is None:
            detail = f"the KB of model {model.name}@{model.version} is not on this service: upload it, or name a `kb`"
            raise Conflict("kb_not_here", detail)
        reference = own.id
    kb = kbs.held(session, tenant, reference)
    _check_fits(model, kb)
    return kb


def _check_fits(model: ModelVersion, kb: Kb) -> None:
    if kb.kind != model.kind:
        detail = f"{kb.name!r} is a KB of {kb.kind}, and the model one of {model.kind}: name a KB of {model.kind}"
        raise Invalid("other_kind", detail)
    method = METHODS.get((cast(Kind, model.kind), model.method))
    if model.kind == "graphs" or kb.sha256 == model.kb_sha256 or method is None or method.config.on_other_kbs:
        return
    detail = f"a model of method {model.method!r} answers only on the KB that it was trained on: leave out `kb`"
    raise Invalid("bound_to_its_kb", detail)


def find(session: Session, tenant: str, job_type: str, job_id: str) -> Job | None:
    mine = (Job.tenant == tenant, Job.id == job_id, Job.type == job_type)
    return session.scalars(select(Job).where(*mine)).one_or_none()


def kb_names(session: Session, kb_ids: set[str]) -> dict[str, str]:
    """Returns KB id -> name, for the KBs that still exist."""
    statement = select(Kb.id, Kb.name).where(Kb.id.in_(kb_ids), Kb.status == "ready")
    return {row.id: row.name for row in session.execute(statement)}
