"""What can be done with training jobs."""

from typing import Any

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ctp_core import __version__
from ctp_core.config import DEFAULT_PRESET, BaseConfig, Profile, parse_config, presets
from service.bodies import invalid
from service.db.clock import now
from service.db.engine import Database
from service.db.tables import Job, Kb, ModelVersion, Outbox
from service.errors import Conflict, Invalid, NotFound
from service.kbs import service as kbs
from service.names import check_name, new_id
from service.training import repository
from service.training.schemas import TrainRequest

VERSION_RETRIES = 5


def profile_of(kb: Kb) -> Profile:
    return Profile(
        kind=kb.kind,
        num_facts=kb.splits.get("train", 0) if kb.kind == "facts" else kb.num_facts,
        num_entities=kb.num_entities if kb.kind == "facts" else 0,
        num_predicates=kb.num_predicates,
        max_length=kb.max_length,
    )


def resolve_config(kb: Kb, preset: str | None, overrides: dict[str, Any]) -> BaseConfig:
    """The preset's settings with the user's on top; another method than the preset's starts from its own defaults."""
    known = presets(profile_of(kb))
    base = known.get(preset or DEFAULT_PRESET)
    if base is None:
        raise Invalid("unknown_preset", f"preset {preset!r} is not known for this KB: choose from {', '.join(known)}")
    method = overrides.get("method", base.method)
    values = base.model_dump(mode="json") if method == base.method else {}
    try:
        return parse_config({**values, **overrides, "method": method})
    except ValidationError as error:
        raise invalid(error) from None


def submit(database: Database, tenant: str, request: TrainRequest) -> tuple[Job, ModelVersion]:
    """Writes model, job and outbox row in one transaction: what is accepted is never lost."""
    check_name(request.name)
    for _ in range(VERSION_RETRIES):
        try:
            with database.write() as session:
                return _submit(session, tenant, request)
        except IntegrityError:
            # Another call took the same version number at the same moment.
            continue
    raise Conflict("busy_name", f"too many trainings of {request.name!r} are being created at once: try again")


def _submit(session: Session, tenant: str, request: TrainRequest) -> tuple[Job, ModelVersion]:
    kb = kbs.get(session, tenant, request.kb)
    config = resolve_config(kb, request.preset, {"seed": request.seeds[0], **request.config})
    values = config.model_dump(mode="json")
    model = ModelVersion(
        id=new_id("model"),
        tenant=tenant,
        name=request.name,
        version=repository.next_version(session, tenant, request.name),
        status="pending",
        kb_id=kb.id,
        kb_sha256=kb.sha256,
        kind=kb.kind,
        method=config.method,
        preset=request.preset or DEFAULT_PRESET,
        config=values,
        metrics={},
        tags=dict(request.tags),
        code_version=__version__,
    )
    session.add(model)
    session.flush()
    job = Job(
        id=new_id("job"),
        tenant=tenant,
        model_id=model.id,
        kb_id=kb.id,
        config=values,
        status="queued",
        priority=request.priority,
        progress={},
    )
    session.add(job)
    session.flush()
    session.add(Outbox(job_id=job.id, priority=job.priority))
    session.flush()
    session.refresh(job)
    return job, model


def get(session: Session, tenant: str, job_id: str) -> Job:
    job = repository.find(session, tenant, job_id)
    if job is None:
        raise NotFound("job_not_found", f"there is no job {job_id[:80]!r}: GET /jobs lists those there are")
    return job


def cancel(database: Database, tenant: str, job_id: str) -> Job:
    """A queued job ends at once, a running one when its worker looks; a finished one stays as it is."""
    with database.write() as session:
        job = get(session, tenant, job_id)
        if job.status in repository.TERMINAL:
            raise Conflict("job_finished", f"job {job_id!r} is {job.status} already")
        job.cancel_requested = True
        if job.status == "queued":
            job.status = "cancelled"
            job.finished_at = session.scalar(select(now()))
            repository.end_model(session, job.model_id, "cancelled")
        return job
