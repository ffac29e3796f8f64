"""The SQL of KBs."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Select, and_, delete, func, insert, or_, select
from sqlalchemy.orm import Session, aliased

from ctp_core.datasets.kb import SPLITS, FactIds, FactsKB, Graph, GraphsKB, KnowledgeBase
from ctp_core.symbols import Fact, Vocabulary
from service.db.tables import FactRow, GraphRow, Kb, ModelVersion, Symbol

SAMPLE_TENANT = ""
CHUNK = 10_000


def visible(tenant: str) -> Select[Kb]:
    """KBs that a tenant may see: its own and the samples, once they are loaded."""
    return select(Kb).where(Kb.tenant.in_([tenant, SAMPLE_TENANT]), Kb.status == "ready")


def find(session: Session, tenant: str, reference: str) -> Kb | None:
    """By id or by name; a tenant's own name hides a sample of that name."""
    statement = visible(tenant).where(or_(Kb.id == reference, Kb.name == reference))
    return session.scalars(statement.order_by(Kb.id != reference, Kb.tenant == SAMPLE_TENANT)).first()


def owned(session: Session, tenant: str, name: str) -> Kb | None:
    return session.scalars(select(Kb).where(Kb.tenant == tenant, Kb.name == name)).one_or_none()


def listing(session: Session, tenant: str, after: int, limit: int) -> Sequence[Kb]:
    return session.scalars(visible(tenant).where(Kb.number > after).order_by(Kb.number).limit(limit)).all()


def insert_symbols(session: Session, kb: Kb, vocabulary: Vocabulary, counts: Sequence[int]) -> None:
    rows = (
        {"kb": kb.number, "role": vocabulary.role, "position": i, "name": name, "num_facts": counts[i]}
        for i, name in enumerate(vocabulary)
    )
    _insert(session, Symbol, rows)


def insert_facts(session: Session, kb: Kb, rows: Iterable[tuple[str, int, int, int, int]]) -> None:
    """Rows of split, graph, subject, predicate, object, numbered in their order."""
    columns = ("split", "graph", "subject", "predicate", "object")
    _insert(
        session,
        FactRow,
        ({"kb": kb.number, "position": i, **dict(zip(columns, row, strict=True))} for i, row in enumerate(rows)),
    )


def insert_graphs(session: Session, kb: Kb, rows: Iterable[tuple[str, int, int, int]]) -> None:
    """Rows of split, subject, object, label, numbered in their order."""
    columns = ("split", "subject", "object", "label")
    _insert(
        session,
        GraphRow,
        ({"kb": kb.number, "number": i, **dict(zip(columns, row, strict=True))} for i, row in enumerate(rows)),
    )


def _insert(session: Session, table: type[Symbol | FactRow | GraphRow], rows: Iterable[dict[str, object]]) -> None:
    chunk: list[dict[str, object]] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == CHUNK:
            session.execute(insert(table), chunk)
            chunk = []
    if chunk:
        session.execute(insert(table), chunk)


def facts(
    session: Session, kb: Kb, pattern: tuple[str | None, str | None, str | None], after: int, limit: int
) -> Sequence[tuple[int, str, Fact]]:
    """(position, split, fact) of the facts that fit the pattern, in the order of the upload."""
    subject, predicate, object_ = aliased(Symbol), aliased(Symbol), aliased(Symbol)
    statement = (
        select(FactRow.position, FactRow.split, subject.name, predicate.name, object_.name)
        .join(subject, _is(subject, "entity", FactRow.subject))
        .join(predicate, _is(predicate, "predicate", FactRow.predicate))
        .join(object_, _is(object_, "entity", FactRow.object))
        .where(FactRow.kb == kb.number, FactRow.position > after)
        .order_by(FactRow.position)
        .limit(limit)
    )
    for column, role, name in zip(
        (FactRow.subject, FactRow.predicate, FactRow.object), ("entity", "predicate", "entity"), pattern, strict=True
    ):
        if name is not None:
            position = select(Symbol.position).where(Symbol.kb == kb.number, Symbol.role == role, Symbol.name == name)
            statement = statement.where(column == position.scalar_subquery())
    return [(row[0], row[1], Fact(row[2], row[3], row[4])) for row in session.execute(statement)]


def _is(symbol: type[Symbol], role: str, position: Any) -> ColumnElement[bool]:
    return and_(symbol.kb == FactRow.kb, symbol.role == role, symbol.position == position)


def symbols(session: Session, kb: Kb, role: str, prefix: str, after: int, limit: int) -> Sequence[Symbol]:
    statement = select(Symbol).where(Symbol.kb == kb.number, Symbol.role == role, Symbol.position > after)
    if prefix:
        statement = statement.where(func.substr(Symbol.name, 1, len(prefix)) == prefix)
    return session.scalars(statement.order_by(Symbol.position).limit(limit)).all()


def has_ready_model(session: Session, kb: Kb) -> bool:
    statement = select(ModelVersion.id).where(
        ModelVersion.kb_id == kb.id, ModelVersion.status.in_(["pending", "ready"])
    )
    return session.scalars(statement.limit(1)).first() is not None


def remove(session: Session, kb: Kb) -> None:
    for table in (FactRow, GraphRow, Symbol):
        session.execute(delete(table).where(table.kb == kb.number))
    session.delete(kb)


def load(session: Session, kb: Kb) -> KnowledgeBase:
    """The whole KB in memory, numbered as it was uploaded."""
    entities, predicates = (_vocabulary(session, kb, role) for role in ("entity", "predicate"))
    columns = (FactRow.split, FactRow.graph, FactRow.subject, FactRow.predicate, FactRow.object)
    rows = session.execute(select(*columns).where(FactRow.kb == kb.number).order_by(FactRow.position)).all()
    if kb.kind == "graphs":
        return _load_graphs(session, kb, entities, predicates, rows)
    splits: dict[str, list[tuple[int, int, int]]] = {name: [] for name in SPLITS if name in kb.splits}
    for split, _, subject, predicate, object_ in rows:
        splits[split].append((subject, predicate, object_))
    return FactsKB(entities, predicates, {name: _ids(values) for name, values in splits.items()})


def _ids(rows: list[tuple[int, int, int]]) -> FactIds:
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _vocabulary(session: Session, kb: Kb, role: str) -> Vocabulary:
    statement = select(Symbol.name).where(Symbol.kb == kb.number, Symbol.role == role).order_by(Symbol.position)
    return Vocabulary(role, session.scalars(statement))


def _load_graphs(
    session: Session, kb: Kb, entities: Vocabulary, predicates: Vocabulary, rows: Iterable[Any]
) -> GraphsKB:
    facts_of: dict[int, list[Fact]] = {}
    for _, number, subject, predicate, object_ in rows:
        fact = Fact(entities.names[subject], predicates.names[predicate], entities.names[object_])
        facts_of.setdefault(number, []).append(fact)
    splits: dict[str, list[Graph]] = {name: [] for name in SPLITS if name in kb.splits}
    graphs = session.scalars(select(GraphRow).where(GraphRow.kb == kb.number).order_by(GraphRow.number)).all()
    for row in graphs:
        graph = Graph(
            tuple(facts_of.get(row.number, ())),
            entities.names[row.subject],
            entities.names[row.object],
            predicates.names[row.label],
        )
        splits[row.split].append(graph)
    targets = sorted({row.label for row in graphs})
    return GraphsKB(
        predicates,
        tuple(predicates.names[target] for target in targets),
        {name: tuple(values) for name, values in splits.items()},
    )
