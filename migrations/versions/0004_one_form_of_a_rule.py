"""Ids and texts of stored rules in the one form that rules have, whatever method they come from.

The form is that of the code that runs, not a copy of it: ids of stored rules are compared with those of new ones. A
rule that is not a path, which only a foreign archive could have brought, stays as it is.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from alembic import op

from ctp_core.errors import DataError
from ctp_core.rules_from_atoms import rule_from_values

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

CHUNK = 1000  # rows in memory and in one statement
FORM = ("rule_id", "text", "template", "head", "body")

RULES = sa.table(
    "rules",
    sa.column("model_id", sa.String),
    sa.column("position", sa.Integer),
    sa.column("rule_id", sa.String),
    sa.column("text", sa.Text),
    sa.column("template", sa.String),
    sa.column("head", sa.JSON),
    sa.column("body", sa.JSON),
    sa.column("confidence", sa.Double),
)
JOBS = sa.table("jobs", sa.column("id", sa.String), sa.column("result", sa.JSON))


def upgrade() -> None:
    connection = op.get_bind()
    for _, rows in groupby(_stored(connection), key=lambda row: row["model_id"]):
        _rewrite(connection, rows)
    _rewrite_results(connection)


def downgrade() -> None:
    """The former texts are not known any more, and nothing needs them."""


def _stored(connection: sa.Connection) -> Iterator[dict[str, Any]]:
    """All rules, model by model, read a chunk at a time."""
    after = ("", -1)
    key = sa.tuple_(RULES.c.model_id, RULES.c.position)
    while True:
        statement = sa.select(RULES).where(key > sa.tuple_(*after)).order_by(RULES.c.model_id, RULES.c.position)
        rows = [dict(row) for row in connection.execute(statement.limit(CHUNK)).mappings()]
        if not rows:
            return
        yield from rows
        after = (rows[-1]["model_id"], rows[-1]["position"])


def _rewrite(connection: sa.Connection, rows: Iterator[dict[str, Any]]) -> None:
    """The rules of one model; of those that are the same rule the most confident stays."""
    best: dict[str, tuple[float, int]] = {}
    changed: list[dict[str, Any]] = []
    dropped: list[dict[str, Any]] = []
    for row in rows:
        form = _form(row)
        if any(row[name] != form[name] for name in FORM):
            changed.append({"of_model": row["model_id"], "at": row["position"], **form})
        known = best.get(form["rule_id"])
        worse = row["position"]
        if known is None or row["confidence"] > known[0]:
            best[form["rule_id"]] = (row["confidence"], row["position"])
            worse = None if known is None else known[1]
        if worse is not None:
            dropped.append({"of_model": row["model_id"], "at": worse})
        if len(changed) >= CHUNK:
            _flush(connection, changed, [])
    _flush(connection, changed, dropped)


def _flush(connection: sa.Connection, changed: list[dict[str, Any]], dropped: list[dict[str, Any]]) -> None:
    this = (RULES.c.model_id == sa.bindparam("of_model")) & (RULES.c.position == sa.bindparam("at"))
    if changed:
        connection.execute(sa.update(RULES).where(this), changed)
    for start in range(0, len(dropped), CHUNK):
        connection.execute(sa.delete(RULES).where(this), dropped[start : start + CHUNK])
    changed.clear()


def _form(values: dict[str, Any]) -> dict[str, Any]:
    """Id, text, template and atoms of a rule, made anew from its atoms."""
    try:
        rule = rule_from_values(values)
    except DataError:
        return {name: values[name] for name in FORM}
    form = {"rule_id": rule.id, "text": rule.text, **rule.values()}
    return {name: form[name] for name in FORM}


def _rewrite_results(connection: sa.Connection) -> None:
    """The rules of trainings that have ended while others of the same job go on."""
    waiting = sa.cast(JOBS.c.result, sa.Text) != "null"
    for job_id in connection.scalars(sa.select(JOBS.c.id).where(waiting)).all():
        this = JOBS.c.id == job_id
        result = connection.execute(sa.select(JOBS.c.result).where(this)).scalar_one()
        rules = _surest({**rule, **_form(rule)} for rule in result["rules"])
        if rules != result["rules"]:
            connection.execute(sa.update(JOBS).where(this).values(result={**result, "rules": rules}))


def _surest(rules: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each rule once, with its highest confidence, in the order of first appearance."""
    best: dict[str, dict[str, Any]] = {}
    for rule in rules:
        known = best.setdefault(rule["rule_id"], rule)
        if rule["confidence"] > known["confidence"]:
            best[rule["rule_id"]] = rule
    return list(best.values())
