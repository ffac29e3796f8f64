"""The SQL of models."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, tuple_
from sqlalchemy.engine import CursorResult
from sqlalchemy.orm import Session, defer

from ctp_core.errors import MAX_COMPARED
from ctp_core.rules import SIDES, UNARY
from service.db.tables import Alias, Checkpoint, Job, Kb, ModelVersion, RuleRow
from service.kbs.repository import SAMPLE_TENANT
from service.training.repository import EVALUATE, TRAIN


def find(session: Session, tenant: str, reference: str) -> ModelVersion | None:
    """Finds a version by id, `name` (the latest ready version), `name@3` or `name@alias`."""
    by_id = session.scalars(
        select(ModelVersion).where(ModelVersion.tenant == tenant, ModelVersion.id == reference)
    ).one_or_none()
    if by_id is not None:
        return by_id
    name, at, suffix = reference.partition("@")
    if at and not suffix:
        return None
    statement = select(ModelVersion).where(ModelVersion.tenant == tenant, ModelVersion.name == name)
    if suffix.isascii() and suffix.isdigit() and len(suffix) < 10:
        statement = statement.where(ModelVersion.version == int(suffix))
    elif suffix:
        alias = select(Alias.model_id).where(Alias.tenant == tenant, Alias.name == name, Alias.alias == suffix)
        statement = statement.where(ModelVersion.id == alias.scalar_subquery())
    else:
        statement = statement.order_by(ModelVersion.status != "ready", ModelVersion.version.desc())
    return session.scalars(statement.limit(1)).first()


def known_versions(session: Session, tenant: str, name: str, most: int) -> list[str]:
    """Returns the newest versions of a model, and all its aliases, as `name@3` and `name@alias`."""
    mine = (ModelVersion.tenant == tenant, ModelVersion.name == name, ModelVersion.status != "deleted")
    versions = select(ModelVersion.version).where(*mine).order_by(ModelVersion.version.desc()).limit(most)
    aliases = select(Alias.alias).where(Alias.tenant == tenant, Alias.name == name).order_by(Alias.alias).limit(most)
    return [f"{name}@{known}" for known in (*session.scalars(versions), *session.scalars(aliases))]


def names(session: Session, tenant: str) -> Sequence[str]:
    """Returns the names of models with at least one version that is not deleted."""
    mine = (ModelVersion.tenant == tenant, ModelVersion.status != "deleted")
    return session.scalars(select(ModelVersion.name).where(*mine).distinct().limit(MAX_COMPARED)).all()


def versions(session: Session, tenant: str, name: str) -> Sequence[int]:
    """Returns the version numbers of a model, newest first, without deleted ones."""
    mine = (ModelVersion.tenant == tenant, ModelVersion.name == name, ModelVersion.status != "deleted")
    return session.scalars(select(ModelVersion.version).where(*mine).order_by(ModelVersion.version.desc())).all()


def lock(session: Session, model: ModelVersion) -> ModelVersion:
    """Returns the newest state of the row, locked until the transaction ends."""
    statement = select(ModelVersion).where(ModelVersion.id == model.id).with_for_update()
    return session.scalars(statement.execution_options(populate_existing=True)).one()


def listing(
    session: Session, tenant: str, name: str | None, status: str | None, before: tuple[float, str] | None, limit: int
) -> Sequence[ModelVersion]:
    """Lists versions, newest first; deleted versions keep their row but are listed only if asked for."""
    wanted = ModelVersion.status != "deleted" if status is None else ModelVersion.status == status
    statement = select(ModelVersion).where(ModelVersion.tenant == tenant, wanted)
    if name is not None:
        statement = statement.where(ModelVersion.name == name)
    if before is not None:
        statement = statement.where(tuple_(ModelVersion.created_at, ModelVersion.id) < before)
    newest = (ModelVersion.created_at.desc(), ModelVersion.id.desc())
    return session.scalars(statement.order_by(*newest).limit(limit)).all()


def aliases(session: Session, models: Sequence[ModelVersion]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {model.id: [] for model in models}
    tenants, names = {model.tenant for model in models}, {model.name for model in models}
    # The table is indexed by tenant and name, so the filter includes both.
    named = (Alias.tenant.in_(tenants), Alias.name.in_(names))
    for alias in session.scalars(select(Alias).where(*named, Alias.model_id.in_(found)).order_by(Alias.alias)):
        found[alias.model_id].append(alias.alias)
    return found


def drop_alias(session: Session, tenant: str, name: str, alias: str) -> bool:
    """Removes an alias; returns False if there was none."""
    result = session.execute(delete(Alias).where(Alias.tenant == tenant, Alias.name == name, Alias.alias == alias))
    assert isinstance(result, CursorResult)
    return result.rowcount == 1


def jobs(session: Session, models: Sequence[ModelVersion]) -> dict[str, str]:
    """Returns model id -> id of the job that the user started."""
    ids = [model.id for model in models]
    # Children are filtered in Python: with `parent_id IS NULL`, SQLite scans all jobs without a parent.
    statement = select(Job.model_id, Job.id, Job.parent_id).where(Job.model_id.in_(ids), Job.type == TRAIN)
    return {row.model_id: row.id for row in session.execute(statement) if row.parent_id is None}


def evaluations(session: Session, models: Sequence[ModelVersion]) -> dict[str, list[Job]]:
    """Returns model id -> its evaluations that have succeeded, newest first, without their long results."""
    found: dict[str, list[Job]] = {model.id: [] for model in models}
    statement = select(Job).where(Job.model_id.in_(found), Job.type == EVALUATE).options(defer(Job.result))
    for job in session.scalars(statement.order_by(Job.finished_at.desc(), Job.id)):
        if job.status == "succeeded":  # not in the statement, with which SQLite reads all jobs that have succeeded
            found[job.model_id].append(job)
    return found


def kb_names(session: Session, models: Sequence[ModelVersion]) -> dict[str, str]:
    """Returns KB id -> name, for the KBs that still exist."""
    ids = {model.kb_id for model in models}
    return {
        row.id: row.name for row in session.execute(select(Kb.id, Kb.name).where(Kb.id.in_(ids), Kb.status == "ready"))
    }


def trainings(session: Session, model: ModelVersion) -> Sequence[Job]:
    """Returns one job for each seed; the job that trained the model's weights comes first."""
    statement = select(Job).where(Job.model_id == model.id, Job.type == TRAIN, Job.has_children.is_(False))
    return session.scalars(statement.order_by(Job.id != (model.trained_by or ""), Job.position)).all()


def checkpoints(session: Session, model: ModelVersion) -> Sequence[tuple[Checkpoint, Job]]:
    """Lists the checkpoints of all seeds, newest first within each seed."""
    statement = (
        select(Checkpoint, Job)
        .join(Job, Job.id == Checkpoint.job_id)
        .where(Job.model_id == model.id)
        .order_by(Job.position, Checkpoint.epoch.desc())
    )
    return [(row[0], row[1]) for row in session.execute(statement)]


@dataclass(frozen=True)
class RuleFilter:
    """Which rules of a model are listed; by default all. What was never counted is not filtered by counts."""

    predicate: str | None = None
    min_confidence: float = 0.0
    min_support: int = 0
    min_precision: float = 0.0
    constants: bool = True
    priors: bool = True

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        if self.predicate is not None:
            yield RuleRow.predicate == self.predicate
        if self.min_confidence:
            yield RuleRow.confidence >= self.min_confidence
        if self.min_support:
            yield func.coalesce(RuleRow.support, self.min_support) >= self.min_support
        if self.min_precision:
            yield func.coalesce(RuleRow.precision, self.min_precision) >= self.min_precision
        hidden = [*([] if self.constants else SIDES), *([] if self.priors else UNARY)]
        if hidden:
            yield RuleRow.template.not_in([str(template) for template in hidden])


ALL_RULES = RuleFilter()


def rules(
    session: Session, model: ModelVersion, wanted: RuleFilter, after: int = -1, limit: int | None = None
) -> Sequence[RuleRow]:
    statement = select(RuleRow).where(RuleRow.model_id == model.id, RuleRow.position > after, *wanted.conditions())
    return session.scalars(statement.order_by(RuleRow.position).limit(limit)).all()


def num_rules(session: Session, model: ModelVersion) -> int:
    return session.scalar(select(func.count()).where(RuleRow.model_id == model.id)) or 0


def least_confident(session: Session, model: ModelVersion, count: int) -> set[int]:
    """Returns the positions of the rules with the least confidence."""
    statement = select(RuleRow.position).where(RuleRow.model_id == model.id)
    return set(session.scalars(statement.order_by(RuleRow.confidence, RuleRow.position.desc()).limit(count)))


class ToldRule(NamedTuple):
    """The part of a rule that a comparison shows."""

    text: str
    confidence: float


def told_rules(session: Session, model: ModelVersion) -> dict[str, ToldRule]:
    """Returns all rules by id, with few columns: a hundred thousand full rows would take seconds and a gigabyte."""
    statement = select(RuleRow.rule_id, RuleRow.text, RuleRow.confidence).where(RuleRow.model_id == model.id)
    return {rule_id: ToldRule(text, confidence) for rule_id, text, confidence in session.execute(statement)}


def rule_predicates(session: Session, model: ModelVersion) -> Sequence[str]:
    """Returns the predicates that occur in heads of rules."""
    return session.scalars(select(RuleRow.predicate).where(RuleRow.model_id == model.id).distinct()).all()


def rule(session: Session, model: ModelVersion, rule_id: str) -> RuleRow | None:
    statement = select(RuleRow).where(RuleRow.model_id == model.id, RuleRow.rule_id == rule_id)
    return session.scalars(statement.limit(1)).first()


def forget_checkpoints(session: Session, job_ids: Sequence[str]) -> None:
    session.execute(delete(Checkpoint).where(Checkpoint.job_id.in_(job_ids)))


def kb_of(session: Session, model: ModelVersion) -> Kb | None:
    """Returns the KB of a model or, if that is not here, a visible KB with the same content; None without either."""
    like = and_(Kb.sha256 == model.kb_sha256, Kb.tenant.in_((model.tenant, SAMPLE_TENANT)))
    own = Kb.id == (model.kb_id or "")
    statement = select(Kb).where(Kb.status == "ready", or_(own, like)).order_by(own.desc(), Kb.number)
    return session.scalars(statement.limit(1)).first()


def kb_like(session: Session, tenants: Sequence[str], sha256: str) -> Kb | None:
    """Returns a KB with this content, locked against deletion until the transaction ends."""
    statement = select(Kb).where(Kb.tenant.in_(tenants), Kb.sha256 == sha256, Kb.status == "ready")
    return session.scalars(statement.order_by(Kb.number).limit(1).with_for_update(read=True)).first()
