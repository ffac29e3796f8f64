"""What can be done with models."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from service.db.tables import ModelVersion
from service.errors import Conflict, NotFound
from service.models import repository
from service.models.schemas import Lineage, ModelOut


def get(session: Session, tenant: str, reference: str) -> ModelVersion:
    model = repository.find(session, tenant, reference)
    if model is None:
        raise NotFound("model_not_found", f"there is no model {reference[:140]!r}: GET /models lists those there are")
    return model


def ready(session: Session, tenant: str, reference: str) -> ModelVersion:
    """A model that can answer; raises Conflict that says why it cannot."""
    model = get(session, tenant, reference)
    if model.status != "ready" or model.artifact is None:
        job = repository.jobs(session, [model]).get(model.id)
        follow = f": GET /jobs/{job} tells how far it is" if job and model.status == "pending" else ""
        raise Conflict("model_not_ready", f"model {reference!r} is {model.status}{follow}")
    return model


def shown(session: Session, models: Sequence[ModelVersion]) -> list[ModelOut]:
    aliases, jobs = repository.aliases(session, models), repository.jobs(session, models)
    return [
        ModelOut.model_validate(
            {
                **vars(model),
                "aliases": aliases[model.id],
                "lineage": Lineage(
                    kb_id=model.kb_id,
                    kb_sha256=model.kb_sha256,
                    code_version=model.code_version,
                    seed=model.config.get("seed"),
                    job_id=jobs.get(model.id),
                ),
            }
        )
        for model in models
    ]
