"""Bounds what each tenant stores: files of its KBs, models and predictions, and the checkpoints of its trainings."""

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from service.db.engine import lock_name
from service.db.tables import Checkpoint, Job, Kb, ModelVersion, PredictionFile, SegmentRow
from service.errors import PayloadTooLarge
from service.settings import Settings


def used_bytes(session: Session, tenant: str) -> int:
    """Returns the bytes that a tenant's files take; those that are being removed do not count."""
    kbs = select(_total(SegmentRow.num_bytes)).join(Kb, Kb.number == SegmentRow.kb)
    kbs = kbs.where(Kb.tenant == tenant, Kb.status == "ready")
    models = select(_total(ModelVersion.artifact_bytes))
    models = models.where(ModelVersion.tenant == tenant, ModelVersion.artifact.is_not(None))
    checkpoints = select(_total(Checkpoint.num_bytes)).join(Job, Job.id == Checkpoint.job_id)
    checkpoints = checkpoints.where(Job.tenant == tenant)
    predictions = select(_total(PredictionFile.num_bytes)).join(Job, Job.id == PredictionFile.job_id)
    predictions = predictions.where(Job.tenant == tenant)
    return sum(int(session.scalar(statement) or 0) for statement in (kbs, models, checkpoints, predictions))


def _total(column: "InstrumentedAttribute[int] | InstrumentedAttribute[int | None]") -> ColumnElement[int]:
    return func.coalesce(func.sum(column), 0)


def check_room(session: Session, tenant: str, num_bytes: int, settings: Settings) -> None:
    """Raises PayloadTooLarge if a tenant may not store so many bytes more.

    Calls of one tenant take turns until their transactions end, so that two never share the last room.
    """
    lock_name(session, f"room:{tenant}")
    used, limit = used_bytes(session, tenant), settings.max_tenant_bytes
    if used + num_bytes > limit:
        detail = (
            f"you store {used:,} of at most {limit:,} bytes (CTP_MAX_TENANT_BYTES), and this takes {num_bytes:,} more: "
            "delete KBs, versions of models or predictions that you do not need (DELETE /kbs/{id}, "
            "DELETE /models/{name}@{version}, DELETE /predictions/{id})"
        )
        raise PayloadTooLarge("too_much_stored", detail, used_bytes=used, max_bytes=limit)
