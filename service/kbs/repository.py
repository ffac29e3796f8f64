"""The SQL of KBs."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from sqlalchemy import ColumnElement, CursorResult, Select, and_, delete, func, or_, select, update
from sqlalchemy.orm import Session

from ctp_core.errors import MAX_COMPARED, ArtifactError
from ctp_core.kb.knowledge_base import Graph
from ctp_core.symbols import Fact
from service.db.clock import now, over
from service.db.tables import GraphRow, Job, Kb, ModelVersion, Revision, SegmentRow
from service.facts.reading import StoredFacts
from service.facts.segment import Segment

SAMPLE_TENANT = ""
BASE = "base"
# A load that writes nothing for this long is considered dead.
LOAD_SECONDS = 20.0


def visible(tenant: str) -> Select[Kb]:
    """Selects the KBs that a tenant may see: its own and the samples, once they are loaded."""
    return select(Kb).where(Kb.tenant.in_([tenant, SAMPLE_TENANT]), Kb.status == "ready")


def find(session: Session, tenant: str, reference: str) -> Kb | None:
    """Finds a KB by id or name; a tenant's own KB hides a sample of the same name from a later release."""
    statement = visible(tenant).where(or_(Kb.id == reference, Kb.name == reference))
    return session.scalars(statement.order_by(Kb.id != reference, Kb.tenant == SAMPLE_TENANT)).first()


def by_id(session: Session, kb_id: str) -> Kb | None:
    """Finds a ready KB by id; the caller must know that the tenant may see it."""
    return session.scalars(select(Kb).where(Kb.id == kb_id, Kb.status == "ready")).one_or_none()


def hold(session: Session, kb: Kb, to_delete: bool = False) -> bool:
    """Locks the KB until the transaction ends; returns False if it is already gone.

    Meanwhile nobody can delete it or, with `to_delete`, start to use it. On SQLite the transaction itself is the lock.
    """
    statement = select(Kb.number).where(Kb.number == kb.number, Kb.status == "ready")
    return session.scalar(statement.with_for_update(read=not to_delete)) is not None


def pinned(session: Session, kb_id: str) -> Kb:
    """Returns the KB of a job, which cannot be deleted while the job's model uses it."""
    return session.scalars(select(Kb).where(Kb.id == kb_id)).one()


def owned(session: Session, tenant: str, name: str) -> Kb | None:
    """Returns the tenant's KB of this name, even while it is loading."""
    return session.scalars(select(Kb).where(Kb.tenant == tenant, Kb.name == name)).one_or_none()


def sample(session: Session, name: str) -> Kb | None:
    statement = select(Kb).where(Kb.tenant == SAMPLE_TENANT, Kb.name == name, Kb.status == "ready")
    return session.scalars(statement).one_or_none()


def listing(session: Session, tenant: str, after: int, limit: int) -> Sequence[Kb]:
    return session.scalars(visible(tenant).where(Kb.number > after).order_by(Kb.number).limit(limit)).all()


def names(session: Session, tenant: str) -> Sequence[str]:
    """Returns the names of the newest KBs that a tenant may see."""
    statement = visible(tenant).with_only_columns(Kb.name)
    return session.scalars(statement.order_by(Kb.number.desc()).limit(MAX_COMPARED)).all()


def still_loading(session: Session, kb: Kb) -> bool:
    """Extends the time in which the load must make progress; returns False if it was given up meanwhile."""
    statement = update(Kb).where(Kb.number == kb.number, Kb.status == "loading")
    return _changed(session, statement.values(loading_until=now() + LOAD_SECONDS))


def make_ready(session: Session, kb: Kb) -> bool:
    statement = update(Kb).where(Kb.number == kb.number, Kb.status == "loading")
    return _changed(session, statement.values(status="ready", loading_until=None))


def give_up(session: Session, kb: Kb) -> None:
    """Hides the KB and frees its name; `sweep` removes its rows later."""
    session.execute(update(Kb).where(Kb.number == kb.number).values(status="deleted", name=f"~{kb.id}"))


def _is_abandoned() -> ColumnElement[bool]:
    return or_(Kb.status == "deleted", and_(Kb.status == "loading", over(Kb.loading_until, LOAD_SECONDS)))


def abandoned(session: Session) -> Sequence[Kb]:
    """Returns the KBs to be swept: deleted ones, and those whose load has stopped."""
    return session.scalars(select(Kb).where(_is_abandoned()).order_by(Kb.number)).all()


def take_abandoned(session: Session, kb: Kb) -> bool:
    """Gives the KB up if it is still abandoned: its load may have gone on, or even ended, meanwhile."""
    statement = update(Kb).where(Kb.number == kb.number, _is_abandoned())
    return _changed(session, statement.values(status="deleted", name=f"~{kb.id}"))


def _changed(session: Session, statement: Any) -> bool:
    return cast("CursorResult[Any]", session.execute(statement)).rowcount > 0


def add_revision(session: Session, kb: Kb, segment: Segment) -> None:
    """Writes the first revision, which consists of one segment."""
    session.add(Revision(kb=kb.number, number=kb.revision, num_facts=segment.num_facts))
    session.flush()
    session.add(
        SegmentRow(
            kb=kb.number,
            revision=kb.revision,
            position=0,
            role=BASE,
            artifact=segment.key,
            num_bytes=segment.num_bytes,
            num_facts=segment.num_facts,
        )
    )


def replace_files(session: Session, kb: Kb, segment: Segment) -> None:
    """Names new files for the segment that the KB consists of."""
    statement = update(SegmentRow).where(SegmentRow.kb == kb.number, SegmentRow.revision == kb.revision)
    session.execute(statement.values(artifact=segment.key, num_bytes=segment.num_bytes))


def artifact_of(session: Session, kb: Kb) -> str:
    """Returns the key of the KB's files; raises ArtifactError if the KB is gone."""
    statement = select(SegmentRow.artifact).where(SegmentRow.kb == kb.number, SegmentRow.revision == kb.revision)
    key = session.scalar(statement.order_by(SegmentRow.position))
    if key is None:
        raise gone(kb)
    return key


def set_statistics(session: Session, kb: Kb, statistics: dict[str, Any]) -> None:
    session.execute(update(Kb).where(Kb.number == kb.number).values(statistics=statistics))


def models_on(session: Session, kb: Kb, most: int) -> list[str]:
    """Returns the models that need this KB as `name@version`, newest first."""
    needs = (ModelVersion.kb_id == kb.id, ModelVersion.status.in_(["pending", "ready"]))
    statement = select(ModelVersion.name, ModelVersion.version).where(*needs)
    rows = session.execute(statement.order_by(ModelVersion.created_at.desc(), ModelVersion.id).limit(most))
    return [f"{row.name}@{row.version}" for row in rows]


def job_on(session: Session, kb: Kb) -> str | None:
    """Returns a job that has not ended, such as an evaluation of a model of another KB, and needs this KB."""
    active = (Job.kb_id == kb.id, Job.status.in_(["queued", "running"]))
    return session.scalars(select(Job.id).where(*active).order_by(Job.created_at).limit(1)).first()


def graph_rows(session: Session, kb: Kb, after: int = -1, limit: int | None = None) -> Sequence[GraphRow]:
    statement = select(GraphRow).where(GraphRow.kb == kb.number, GraphRow.number > after)
    return session.scalars(statement.order_by(GraphRow.number).limit(limit)).all()


def graph_of(row: GraphRow, facts: Iterable[Fact], stored: StoredFacts) -> Graph:
    label = stored.predicates.name(row.label) if row.label >= 0 else None
    return Graph(tuple(facts), stored.entities.name(row.subject), stored.entities.name(row.object), label)


def gone(kb: Kb) -> ArtifactError:
    return ArtifactError(f"the KB {kb.name!r} was deleted while it was being read")


def last_graph(session: Session, kb: Kb) -> int:
    """Returns the largest number of a graph of the KB; -1 if there are none."""
    largest = session.scalar(select(func.max(GraphRow.number)).where(GraphRow.kb == kb.number))
    return -1 if largest is None else largest


def delete_graphs(session: Session, kb: Kb, first: int, count: int) -> None:
    chosen = (GraphRow.kb == kb.number, GraphRow.number >= first, GraphRow.number < first + count)
    session.execute(delete(GraphRow).where(*chosen))


def forget(session: Session, kb: Kb) -> None:
    session.execute(delete(Kb).where(Kb.number == kb.number))
