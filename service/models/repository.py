"""The SQL of models."""

from collections.abc import Sequence

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from service.db.tables import Alias, Job, Metric, ModelVersion, RuleRow


def find(session: Session, tenant: str, reference: str) -> ModelVersion | None:
    """By id, `name` (latest ready version), `name@3` or `name@alias`."""
    by_id = session.scalars(
        select(ModelVersion).where(ModelVersion.tenant == tenant, ModelVersion.id == reference)
    ).one_or_none()
    if by_id is not None:
        return by_id
    name, _, suffix = reference.partition("@")
    statement = select(ModelVersion).where(ModelVersion.tenant == tenant, ModelVersion.name == name)
    if suffix.isascii() and suffix.isdigit() and len(suffix) < 10:
        statement = statement.where(ModelVersion.version == int(suffix))
    elif suffix:
        alias = select(Alias.model_id).where(Alias.tenant == tenant, Alias.name == name, Alias.alias == suffix)
        statement = statement.where(ModelVersion.id == alias.scalar_subquery())
    else:
        statement = statement.order_by(ModelVersion.status != "ready", ModelVersion.version.desc())
    return session.scalars(statement.limit(1)).first()


def listing(
    session: Session, tenant: str, name: str | None, before: tuple[float, str] | None, limit: int
) -> Sequence[ModelVersion]:
    """Newest first; deleted versions keep their row but are not listed."""
    created = ModelVersion.created_at
    statement = select(ModelVersion).where(ModelVersion.tenant == tenant, ModelVersion.status != "deleted")
    if name is not None:
        statement = statement.where(ModelVersion.name == name)
    if before is not None:
        statement = statement.where(or_(created < before[0], and_(created == before[0], ModelVersion.id < before[1])))
    return session.scalars(statement.order_by(created.desc(), ModelVersion.id.desc()).limit(limit)).all()


def aliases(session: Session, models: Sequence[ModelVersion]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {model.id: [] for model in models}
    statement = select(Alias).where(Alias.model_id.in_(found)).order_by(Alias.alias)
    for alias in session.scalars(statement):
        found[alias.model_id].append(alias.alias)
    return found


def jobs(session: Session, models: Sequence[ModelVersion]) -> dict[str, str]:
    """Model id -> the job that trained it."""
    ids = [model.id for model in models]
    statement = select(Job.model_id, Job.id).where(Job.model_id.in_(ids), Job.parent_id.is_(None))
    return {row.model_id: row.id for row in session.execute(statement)}


def rules(
    session: Session, model: ModelVersion, predicate: str | None, min_confidence: float, after: int, limit: int
) -> Sequence[RuleRow]:
    statement = select(RuleRow).where(
        RuleRow.model_id == model.id, RuleRow.confidence >= min_confidence, RuleRow.position > after
    )
    if predicate is not None:
        statement = statement.where(RuleRow.predicate == predicate)
    return session.scalars(statement.order_by(RuleRow.position).limit(limit)).all()


def metrics(session: Session, job_id: str, after: int, limit: int) -> Sequence[Metric]:
    statement = select(Metric).where(Metric.job_id == job_id, Metric.epoch > after).order_by(Metric.epoch)
    return session.scalars(statement.limit(limit)).all()
