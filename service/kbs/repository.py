"""The SQL of KBs."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, cast

import numpy as np
from sqlalchemy import ColumnElement, CursorResult, Select, and_, delete, func, or_, select, tuple_, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from ctp_core.errors import MAX_COMPARED, ArtifactError
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import SPLITS, FactsKB, Graph, GraphsKB, KnowledgeBase
from ctp_core.symbols import Fact, Vocabulary
from service.db.bulk import one_of
from service.db.clock import now, over
from service.db.tables import FactBlock, GraphRow, Job, Kb, ModelVersion, Symbol
from service.kbs.blocks import COLUMNS, ORDERINGS, UPLOAD, Rows, decode, matching, ordering_for

SAMPLE_TENANT = ""
ENTITY, PREDICATE = "entity", "predicate"
ROLES = (ENTITY, PREDICATE, ENTITY)  # of subject, predicate, object
MAX_CODE_POINT = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)
# A load that writes nothing for this long is considered dead.
LOAD_SECONDS = 20.0
NAMES_AT_ONCE = 500  # that one statement looks up


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


def position_of(session: Session, kb: Kb, role: str, name: str) -> int | None:
    statement = select(Symbol.position).where(Symbol.kb == kb.number, Symbol.role == role, Symbol.name == name)
    return session.scalar(statement)


def known_names(session: Session, kb: Kb, role: str, names: Collection[str]) -> set[str]:
    """Returns those of the names that the KB has."""
    wanted, found = list(names), set[str]()
    for start in range(0, len(wanted), NAMES_AT_ONCE):
        some = Symbol.name.in_(wanted[start : start + NAMES_AT_ONCE])
        found |= set(session.scalars(select(Symbol.name).where(Symbol.kb == kb.number, Symbol.role == role, some)))
    return found


def names_like(session: Session, kb: Kb, role: str, name: str) -> Sequence[str]:
    """Returns names to suggest for an unknown one: all if they are few, else those with the same first letter."""
    statement = select(Symbol.name).where(Symbol.kb == kb.number, Symbol.role == role)
    if (kb.num_entities if role == ENTITY else kb.num_predicates) > MAX_COMPARED:
        statement = statement.where(or_(*(_begins_with(first) for first in {name[:1].lower(), name[:1].upper()})))
    return session.scalars(statement.limit(MAX_COMPARED)).all()


def _begins_with(prefix: str) -> ColumnElement[bool]:
    """Filters by prefix, as a range of the index on names."""
    end = _after_prefix(prefix)
    return Symbol.name >= prefix if end is None else and_(Symbol.name >= prefix, Symbol.name < end)


def names_of(session: Session, kb: Kb, role: str, positions: set[int]) -> dict[int, str]:
    wanted = one_of(session, Symbol.position, sorted(positions))
    statement = select(Symbol.position, Symbol.name).where(Symbol.kb == kb.number, Symbol.role == role, wanted)
    return {position: name for position, name in session.execute(statement)}  # noqa: C416  mypy does not take rows for tuples


def found_rows(session: Session, kb: Kb, fixed: dict[int, int], after: list[int] | None, limit: int) -> Rows:
    """Returns `limit` rows (subject, predicate, object, position) or fewer with the fixed values, after a key."""
    ordering = ordering_for(set(fixed))
    columns = ORDERINGS[ordering]
    key = tuple(after) if after is not None else None
    found: list[Rows] = []
    number = _first_block(session, kb, ordering, fixed, key)
    while sum(map(len, found)) < limit:
        block = session.get(FactBlock, (kb.number, ordering, number))
        if block is None or any(getattr(block, COLUMNS[c]) > fixed[c] for c in columns[:1] if c in fixed):
            break
        decoded = decode(block.rows)
        found.append(matching(decoded, fixed, columns, key))
        number += 1
        if fixed and _beyond(decoded[-1].tolist(), fixed, columns):
            break
    return np.concatenate(found)[:limit] if found else np.zeros((0, len(COLUMNS)), dtype=np.int32)


def _first_block(session: Session, kb: Kb, ordering: str, fixed: dict[int, int], key: tuple[int, ...] | None) -> int:
    """Returns the number of the last block that begins at or before the start of the search."""
    columns = ORDERINGS[ordering]
    start = key if key is not None else tuple(fixed.get(column, -1) for column in columns)
    attributes = [cast("InstrumentedAttribute[int]", getattr(FactBlock, COLUMNS[column])) for column in columns]
    statement = select(func.max(FactBlock.number)).where(
        FactBlock.kb == kb.number, FactBlock.ordering == ordering, tuple_(*attributes) <= start
    )
    return session.scalar(statement) or 0


def _beyond(last: list[int], fixed: dict[int, int], columns: tuple[int, ...]) -> bool:
    """Tells whether the last row of a block comes after all matching rows."""
    places = [column for column in columns if column in fixed]
    return [last[c] for c in places] > [fixed[c] for c in places]


def symbols(session: Session, kb: Kb, role: str, after: int, limit: int) -> Sequence[Symbol]:
    """Lists symbols of a role in the order of the upload."""
    statement = select(Symbol).where(Symbol.kb == kb.number, Symbol.role == role, Symbol.position > after)
    return session.scalars(statement.order_by(Symbol.position).limit(limit)).all()


def symbols_with_prefix(session: Session, kb: Kb, prefix: str, after: str, limit: int) -> Sequence[Symbol]:
    """Lists entities by name, so that a prefix is a range of the index."""
    statement = select(Symbol).where(Symbol.kb == kb.number, Symbol.role == ENTITY, _begins_with(prefix))
    if after:
        statement = statement.where(Symbol.name > after)
    return session.scalars(statement.order_by(Symbol.name).limit(limit)).all()


def _after_prefix(prefix: str) -> str | None:
    """Returns the smallest string that sorts after all strings with this prefix; None if there is none."""
    for length in range(len(prefix), 0, -1):
        following = ord(prefix[length - 1]) + 1
        if following in SURROGATES:
            following = SURROGATES.stop
        if following <= MAX_CODE_POINT:
            return prefix[: length - 1] + chr(following)
    return None


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


def vocabulary(session: Session, kb: Kb, role: str) -> Vocabulary:
    statement = select(Symbol.name).where(Symbol.kb == kb.number, Symbol.role == role).order_by(Symbol.position)
    return Vocabulary(role, session.scalars(statement))


def upload_blocks(session: Session, kb: Kb, first: int, count: int) -> list[Rows]:
    """Returns up to `count` blocks in the order of the upload, from number `first` on."""
    statement = select(FactBlock.rows).where(
        FactBlock.kb == kb.number,
        FactBlock.ordering == UPLOAD,
        FactBlock.number >= first,
        FactBlock.number < first + count,
    )
    return [decode(rows) for rows in session.scalars(statement.order_by(FactBlock.number))]


def facts_by_split(session: Session, kb: Kb) -> dict[str, int]:
    """Returns the number of facts of each split, in the order in which the splits are stored."""
    if kb.kind == "facts":
        return {name: kb.splits[name] for name in SPLITS if name in kb.splits}
    statement = select(GraphRow.split, func.sum(GraphRow.num_facts)).where(GraphRow.kb == kb.number)
    counts = {row[0]: int(row[1]) for row in session.execute(statement.group_by(GraphRow.split))}
    return {name: counts.get(name, 0) for name in SPLITS if name in kb.splits}


def graph_rows(session: Session, kb: Kb, after: int = -1, limit: int | None = None) -> Sequence[GraphRow]:
    statement = select(GraphRow).where(GraphRow.kb == kb.number, GraphRow.number > after)
    return session.scalars(statement.order_by(GraphRow.number).limit(limit)).all()


def graph_of(row: GraphRow, facts: Iterable[Fact], entities: Vocabulary, predicates: Vocabulary) -> Graph:
    label = predicates.names[row.label] if row.label >= 0 else None
    return Graph(tuple(facts), entities.names[row.subject], entities.names[row.object], label)


def check_whole(kb: Kb, num_entities: int, num_facts: int) -> None:
    """Raises ArtifactError if entities or facts are missing: the KB was deleted and is being swept."""
    if (num_entities, num_facts) != (kb.num_entities, kb.num_facts):
        raise ArtifactError(f"the KB {kb.name!r} was deleted while it was being read")


def read_kb(session: Session, kb: Kb) -> KnowledgeBase:
    """Reads the whole KB, numbered as it was uploaded; raises ArtifactError if it is deleted meanwhile."""
    entities, predicates = (vocabulary(session, kb, role) for role in (ENTITY, PREDICATE))
    found = upload_blocks(session, kb, 0, kb.num_facts + 1)
    ids = np.concatenate(found)[:, :3].astype(np.int64) if found else np.zeros((0, 3), np.int64)
    check_whole(kb, len(entities), len(ids))
    if kb.kind == "graphs":
        return _graphs(graph_rows(session, kb), kb, entities, predicates, ids.tolist())
    counts = facts_by_split(session, kb)
    ends = np.cumsum(list(counts.values())).tolist()
    return FactsKB(
        entities,
        predicates,
        {name: ids[end - counts[name] : end] for name, end in zip(counts, ends, strict=True)},
    )


def _graphs(
    graphs: Sequence[GraphRow], kb: Kb, entities: Vocabulary, predicates: Vocabulary, ids: list[list[int]]
) -> GraphsKB:
    splits: dict[str, list[Graph]] = {name: [] for name in SPLITS if name in kb.splits}
    start = 0
    for row in graphs:
        own = ids[start : start + row.num_facts]
        start += row.num_facts
        facts = (Fact(entities.names[s], predicates.names[p], entities.names[o]) for s, p, o in own)
        splits[row.split].append(graph_of(row, facts, entities, predicates))
    return graphs_kb(splits)


def last_of(session: Session, kb: Kb, column: "InstrumentedAttribute[int]") -> int:
    """Returns the largest value of a column among the rows of a KB; -1 if there are none."""
    largest = session.scalar(select(func.max(column)).where(column.class_.kb == kb.number))
    return -1 if largest is None else largest


def delete_range(session: Session, kb: Kb, column: "InstrumentedAttribute[int]", first: int, count: int) -> None:
    table = column.class_
    session.execute(delete(table).where(table.kb == kb.number, column >= first, column < first + count))


def forget(session: Session, kb: Kb) -> None:
    session.execute(delete(Kb).where(Kb.number == kb.number))
