"""The SQL of the facts behind a rule: its body as a join, of whatever shape it is."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import exists, select
from sqlalchemy.orm import Session, aliased

from ctp_core.symbols import Fact
from service.db.tables import FactRow, GraphRow, Kb, RuleRow, Symbol


def groundings(session: Session, kb: Kb, rule: RuleRow, known: bool, limit: int) -> list[tuple[Fact, ...]]:
    """Ways in which training facts make the body true, where the head is a known fact, or where it is not."""
    places: dict[str, Any] = {}
    facts = [aliased(FactRow) for _ in rule.body]
    conditions: list[Any] = []
    for atom, fact in zip(rule.body, facts, strict=True):
        named = [fact.kb == kb.number, fact.split == "train", fact.predicate == _position(kb, atom["predicate"])]
        conditions += [*named, fact.graph == facts[0].graph]
        for variable, column in ((atom["subject"], fact.subject), (atom["object"], fact.object)):
            if variable in places:
                conditions.append(column == places[variable])
            places.setdefault(variable, column)
    head = _head(kb, rule, places, facts[0].graph)
    statement = select(*(c for f in facts for c in (f.subject, f.predicate, f.object))).where(*conditions)
    rows = session.execute(statement.where(head if known else ~head).limit(limit)).all()
    names = _names(session, kb, rows)
    return [tuple(_fact(names, row[i : i + 3]) for i in range(0, len(row), 3)) for row in rows]


def _position(kb: Kb, predicate: str) -> Any:
    named = (Symbol.kb == kb.number, Symbol.role == "predicate", Symbol.name == predicate)
    return select(Symbol.position).where(*named).scalar_subquery()


def _head(kb: Kb, rule: RuleRow, places: dict[str, Any], graph: Any) -> Any:
    """Whether the head is stated: by a fact, or in a graph by its label."""
    subject, object_ = (places[rule.head[place]] for place in ("subject", "object"))
    predicate = _position(kb, rule.head["predicate"])
    if kb.kind == "graphs":
        same = (GraphRow.kb == kb.number, GraphRow.number == graph, GraphRow.label == predicate)
        return exists().where(*same, GraphRow.subject == subject, GraphRow.object == object_)
    stated = aliased(FactRow)
    same = (stated.kb == kb.number, stated.split == "train", stated.predicate == predicate)
    return exists().where(*same, stated.subject == subject, stated.object == object_)


def _names(session: Session, kb: Kb, rows: Sequence[Any]) -> dict[tuple[str, int], str]:
    """(role, position) -> name of every symbol in the rows."""
    wanted = {
        "entity": {value for row in rows for i, value in enumerate(row) if i % 3 != 1},
        "predicate": {value for row in rows for value in row[1::3]},
    }
    found: dict[tuple[str, int], str] = {}
    for role, positions in wanted.items():
        statement = select(Symbol).where(Symbol.kb == kb.number, Symbol.role == role, Symbol.position.in_(positions))
        found |= {(role, symbol.position): symbol.name for symbol in session.scalars(statement)}
    return found


def _fact(names: dict[tuple[str, int], str], ids: Sequence[int]) -> Fact:
    subject, predicate, object_ = ids
    return Fact(names["entity", subject], names["predicate", predicate], names["entity", object_])
