"""The SQL of KBs."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from sqlalchemy import ColumnElement, CursorResult, Select, and_, delete, func, or_, select, tuple_, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from ctp_core.errors import MAX_COMPARED, ArtifactError
from ctp_core.kb.graph_checks import graphs_kb
from ctp_core.kb.knowledge_base import SPLITS, FactsKB, Graph, GraphsKB, KnowledgeBase
from ctp_core.symbols import Fact, Vocabulary
from service.db.bulk import one_of
from service.db.clock import now
from service.db.tables import FactBlock, GraphRow, Kb, ModelVersion, Symbol
from service.kbs.blocks import COLUMNS, ORDERINGS, UPLOAD, Rows, decode, matching, ordering_for

SAMPLE_TENANT = ""
ENTITY, PREDICATE = "entity", "predicate"
ROLES = (ENTITY, PREDICATE, ENTITY)  # of subject, predicate, object
MAX_CODE_POINT = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)


def visible(tenant: str) -> Select[Kb]:
    """KBs that a tenant may see: its own and the samples, once they are loaded."""
    return select(Kb).where(Kb.tenant.in_([tenant, SAMPLE_TENANT]), Kb.status == "ready")


def find(session: Session, tenant: str, reference: str) -> Kb | None:
    """By id or by name; a tenant's own name hides a sample that a later release brought."""
    statement = visible(tenant).where(or_(Kb.id == reference, Kb.name == reference))
    return session.scalars(statement.order_by(Kb.id != reference, Kb.tenant == SAMPLE_TENANT)).first()


def by_id(session: Session, kb_id: str) -> Kb | None:
    """For those who were given the id by somebody that may see it."""
    return session.scalars(select(Kb).where(Kb.id == kb_id, Kb.status == "ready")).one_or_none()


def hold(session: Session, kb: Kb, to_delete: bool = False) -> bool:
    """Until the transaction ends: nobody deletes it, or nobody begins to stand on it. False where it is gone already.

    On SQLite the transaction itself sees to that.
    """
    statement = select(Kb.number).where(Kb.number == kb.number, Kb.status == "ready")
    return session.scalar(statement.with_for_update(read=not to_delete)) is not None


def pinned(session: Session, kb_id: str) -> Kb:
    """The KB of a job: it cannot be deleted while the job's model stands on it."""
    return session.scalars(select(Kb).where(Kb.id == kb_id)).one()


def owned(session: Session, tenant: str, name: str) -> Kb | None:
    """Whoever has the name, also while it is loading."""
    return session.scalars(select(Kb).where(Kb.tenant == tenant, Kb.name == name)).one_or_none()


def sample(session: Session, name: str) -> Kb | None:
    statement = select(Kb).where(Kb.tenant == SAMPLE_TENANT, Kb.name == name, Kb.status == "ready")
    return session.scalars(statement).one_or_none()


def listing(session: Session, tenant: str, after: int, limit: int) -> Sequence[Kb]:
    return session.scalars(visible(tenant).where(Kb.number > after).order_by(Kb.number).limit(limit)).all()


def names(session: Session, tenant: str) -> Sequence[str]:
    """Of the newest KBs that a tenant may see."""
    statement = visible(tenant).with_only_columns(Kb.name)
    return session.scalars(statement.order_by(Kb.number.desc()).limit(MAX_COMPARED)).all()


def still_loading(session: Session, kb: Kb, seconds: float) -> bool:
    """Renews the time in which the load must go on; False where it was given up meanwhile."""
    statement = update(Kb).where(Kb.number == kb.number, Kb.status == "loading").values(loading_until=now() + seconds)
    return _changed(session, statement)


def make_ready(session: Session, kb: Kb) -> bool:
    statement = update(Kb).where(Kb.number == kb.number, Kb.status == "loading")
    return _changed(session, statement.values(status="ready", loading_until=None))


def give_up(session: Session, kb: Kb) -> None:
    """From now on invisible, its name free for another; `sweep` removes what it had."""
    session.execute(update(Kb).where(Kb.number == kb.number).values(status="deleted", name=f"~{kb.id}"))


def _is_abandoned() -> ColumnElement[bool]:
    return or_(Kb.status == "deleted", and_(Kb.status == "loading", Kb.loading_until < now()))


def abandoned(session: Session) -> Sequence[Kb]:
    """KBs to be swept: deleted ones, and those whose load went silent."""
    return session.scalars(select(Kb).where(_is_abandoned()).order_by(Kb.number)).all()


def take_abandoned(session: Session, kb: Kb) -> bool:
    """Gives it up where it is abandoned still: a load that was silent may have gone on, and even ended, meanwhile."""
    statement = update(Kb).where(Kb.number == kb.number, _is_abandoned())
    return _changed(session, statement.values(status="deleted", name=f"~{kb.id}"))


def _changed(session: Session, statement: Any) -> bool:
    return cast("CursorResult[Any]", session.execute(statement)).rowcount > 0


def position_of(session: Session, kb: Kb, role: str, name: str) -> int | None:
    statement = select(Symbol.position).where(Symbol.kb == kb.number, Symbol.role == role, Symbol.name == name)
    return session.scalar(statement)


def names_like(session: Session, kb: Kb, role: str, name: str) -> Sequence[str]:
    """Names that may be meant by one that is not there: of few all, of many those that begin alike."""
    statement = select(Symbol.name).where(Symbol.kb == kb.number, Symbol.role == role)
    if (kb.num_entities if role == ENTITY else kb.num_predicates) > MAX_COMPARED:
        statement = statement.where(or_(*(_begins_with(first) for first in {name[:1].lower(), name[:1].upper()})))
    return session.scalars(statement.limit(MAX_COMPARED)).all()


def _begins_with(prefix: str) -> ColumnElement[bool]:
    """As a range of the index on names."""
    end = _after_prefix(prefix)
    return Symbol.name >= prefix if end is None else and_(Symbol.name >= prefix, Symbol.name < end)


def names_of(session: Session, kb: Kb, role: str, positions: set[int]) -> dict[int, str]:
    wanted = one_of(session, Symbol.position, sorted(positions))
    statement = select(Symbol.position, Symbol.name).where(Symbol.kb == kb.number, Symbol.role == role, wanted)
    return {position: name for position, name in session.execute(statement)}  # noqa: C416  rows are no tuples to mypy


def found_rows(session: Session, kb: Kb, fixed: dict[int, int], after: list[int] | None, limit: int) -> Rows:
    """Rows of subject, predicate, object, position with the fixed values, after a key of their ordering."""
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
    """The last block that begins at or before the place to look from."""
    columns = ORDERINGS[ordering]
    start = key if key is not None else tuple(fixed.get(column, -1) for column in columns)
    attributes = [cast("InstrumentedAttribute[int]", getattr(FactBlock, COLUMNS[column])) for column in columns]
    statement = select(func.max(FactBlock.number)).where(
        FactBlock.kb == kb.number, FactBlock.ordering == ordering, tuple_(*attributes) <= start
    )
    return session.scalar(statement) or 0


def _beyond(last: list[int], fixed: dict[int, int], columns: tuple[int, ...]) -> bool:
    """Whether a block's last row already comes after all that fit."""
    places = [column for column in columns if column in fixed]
    return [last[c] for c in places] > [fixed[c] for c in places]


def symbols(session: Session, kb: Kb, role: str, after: int, limit: int) -> Sequence[Symbol]:
    """In the order of the upload."""
    statement = select(Symbol).where(Symbol.kb == kb.number, Symbol.role == role, Symbol.position > after)
    return session.scalars(statement.order_by(Symbol.position).limit(limit)).all()


def symbols_with_prefix(session: Session, kb: Kb, prefix: str, after: str, limit: int) -> Sequence[Symbol]:
    """Entities in the order of their names, which makes a prefix a range of the index."""
    statement = select(Symbol).where(Symbol.kb == kb.number, Symbol.role == ENTITY, _begins_with(prefix))
    if after:
        statement = statement.where(Symbol.name > after)
    return session.scalars(statement.order_by(Symbol.name).limit(limit)).all()


def _after_prefix(prefix: str) -> str | None:
    """The first text that comes after everything that begins with `prefix`; None where nothing does."""
    for length in range(len(prefix), 0, -1):
        following = ord(prefix[length - 1]) + 1
        if following in SURROGATES:
            following = SURROGATES.stop
        if following <= MAX_CODE_POINT:
            return prefix[: length - 1] + chr(following)
    return None


def has_model(session: Session, kb: Kb) -> bool:
    statement = select(ModelVersion.id).where(
        ModelVersion.kb_id == kb.id, ModelVersion.status.in_(["pending", "ready"])
    )
    return session.scalars(statement.limit(1)).first() is not None


def vocabulary(session: Session, kb: Kb, role: str) -> Vocabulary:
    statement = select(Symbol.name).where(Symbol.kb == kb.number, Symbol.role == role).order_by(Symbol.position)
    return Vocabulary(role, session.scalars(statement))


def upload_blocks(session: Session, kb: Kb, first: int, count: int) -> list[Rows]:
    """Blocks in the order of the upload, from number `first` on."""
    statement = select(FactBlock.rows).where(
        FactBlock.kb == kb.number,
        FactBlock.ordering == UPLOAD,
        FactBlock.number >= first,
        FactBlock.number < first + count,
    )
    return [decode(rows) for rows in session.scalars(statement.order_by(FactBlock.number))]


def facts_by_split(session: Session, kb: Kb) -> dict[str, int]:
    """How many facts each split has; they stand one split after the other."""
    if kb.kind == "facts":
        return {name: kb.splits[name] for name in SPLITS if name in kb.splits}
    statement = select(GraphRow.split, func.sum(GraphRow.num_facts)).where(GraphRow.kb == kb.number)
    counts = {row[0]: int(row[1]) for row in session.execute(statement.group_by(GraphRow.split))}
    return {name: counts.get(name, 0) for name in SPLITS if name in kb.splits}


def graph_rows(session: Session, kb: Kb) -> Sequence[GraphRow]:
    return session.scalars(select(GraphRow).where(GraphRow.kb == kb.number).order_by(GraphRow.number)).all()


def check_whole(kb: Kb, num_entities: int, num_facts: int) -> None:
    """Raises ArtifactError where less was found than is there: the KB was deleted, and is being swept away."""
    if (num_entities, num_facts) != (kb.num_entities, kb.num_facts):
        raise ArtifactError(f"the KB {kb.name!r} was deleted while it was read")


def read_kb(session: Session, kb: Kb) -> KnowledgeBase:
    """The whole KB in memory, numbered as it was uploaded. Raises ArtifactError where it goes away meanwhile."""
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
        facts = tuple(Fact(entities.names[s], predicates.names[p], entities.names[o]) for s, p, o in own)
        label = predicates.names[row.label] if row.label >= 0 else None
        splits[row.split].append(Graph(facts, entities.names[row.subject], entities.names[row.object], label))
    return graphs_kb(splits)


def last_of(session: Session, kb: Kb, column: "InstrumentedAttribute[int]") -> int:
    """The largest number that rows of a KB have in this column, -1 where there are none."""
    largest = session.scalar(select(func.max(column)).where(column.class_.kb == kb.number))
    return -1 if largest is None else largest


def delete_range(session: Session, kb: Kb, column: "InstrumentedAttribute[int]", first: int, count: int) -> None:
    table = column.class_
    session.execute(delete(table).where(table.kb == kb.number, column >= first, column < first + count))


def forget(session: Session, kb: Kb) -> None:
    session.execute(delete(Kb).where(Kb.number == kb.number))
