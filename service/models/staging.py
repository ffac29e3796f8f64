"""Writes an imported version in many short transactions, so that others need not wait; the last makes it visible.

Until then the version belongs to a tenant that nobody can be, under its id as its name.
"""

import json
import time
from itertools import islice

import structlog
from sqlalchemy import ColumnElement, delete, exists, func, select
from sqlalchemy.orm import Session

from service.db.clock import now
from service.db.engine import Database
from service.db.tables import ModelVersion, RuleRow
from service.errors import Unavailable
from service.models.held_rules import HeldRules
from service.training.outcomes import add_rules

log = structlog.get_logger()
IMPORTING = ":importing"  # not a valid name of a tenant
CHUNK_RULES = 2000
# A pause between transactions lets others write: SQLite does not serve waiting writers in turn.
PAUSE_SECONDS = 0.01
# A version that is not visible after this time belongs to an import that was broken off.
ABANDONED_SECONDS = 3600.0


def stage(database: Database, model: ModelVersion, rules: HeldRules) -> None:
    """Writes the version and its rules, invisible to everybody."""
    model.tenant, model.name, model.version, model.status = IMPORTING, model.id, 1, "pending"
    with database.write() as session:
        session.add(model)
    waiting = iter(rules)
    for first in range(0, len(rules), CHUNK_RULES):
        chunk = [json.loads(rule) for rule in islice(waiting, CHUNK_RULES)]
        with database.write() as session:
            add_rules(session, model.id, chunk, first)
        time.sleep(PAUSE_SECONDS)


def staged(session: Session, model_id: str) -> ModelVersion:
    """Raises Unavailable if the version was removed meanwhile, as one that is taken for abandoned is."""
    model = session.get(ModelVersion, model_id)
    if model is None:
        raise lost()
    return model


def lost() -> Unavailable:
    return Unavailable("import_lost", "the import took so long that it was taken for abandoned: send it again")


def unstage(database: Database, model_id: str) -> None:
    """Removes a version that is not to become visible, if there is one."""
    mine = (ModelVersion.id == model_id, ModelVersion.tenant == IMPORTING)
    _forget_rules(database, *mine)
    with database.write() as session:
        session.execute(delete(ModelVersion).where(*mine))


def _forget_rules(database: Database, *which: ColumnElement[bool]) -> None:
    """Removes the rules of a version, as long as it is as `which` says."""
    models = select(ModelVersion.id).where(*which)
    with database.read() as session:
        last = session.scalar(select(func.max(RuleRow.position)).where(RuleRow.model_id.in_(models)))
    for first in range(0, -1 if last is None else last + 1, CHUNK_RULES):
        some = RuleRow.position.between(first, first + CHUNK_RULES - 1)
        with database.write() as session:
            session.execute(delete(RuleRow).where(RuleRow.model_id.in_(models), some))
        time.sleep(PAUSE_SECONDS)


def sweep(database: Database) -> None:
    """Removes what imports that were broken off have left, and the rules of deleted versions."""
    old = ModelVersion.created_at < now() - ABANDONED_SECONDS
    with database.read() as session:
        abandoned = session.scalars(select(ModelVersion.id).where(ModelVersion.tenant == IMPORTING, old)).all()
        has_rules = exists().where(RuleRow.model_id == ModelVersion.id)
        deleted = session.scalars(select(ModelVersion.id).where(ModelVersion.status == "deleted", has_rules)).all()
    for model_id in deleted:
        _forget_rules(database, ModelVersion.id == model_id, ModelVersion.status == "deleted")
    for model_id in abandoned:
        unstage(database, model_id)
        log.info("import_swept", model_id=model_id)
