"""Writes a version with its rules in many short transactions, so that others need not wait; the last shows it.

Until then an imported version belongs to a tenant that nobody can be, under its id as its name. The rules of a training
are written under its own version, which shows none before it is ready. Those of one seed of several are staged under
an invisible version; those of the best are given to the model before the parent ends (`training.outcomes`).
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import structlog
from sqlalchemy import ColumnElement, case, delete, exists, func, or_, select
from sqlalchemy.orm import Session

from service.db.clock import now
from service.db.engine import Database
from service.db.tables import Job, ModelVersion, RuleRow
from service.errors import Unavailable
from service.models.held_rules import HeldRules
from service.names import new_id
from service.training import outcomes
from service.training.repository import ACTIVE, Claim, check_held

log = structlog.get_logger()
ENDED = ("deleted", "failed", "cancelled")  # versions whose rules nobody sees any more
IMPORTING = ":importing"  # not a valid name of a tenant
Write = Callable[[Callable[[Session], None]], None]  # calls a function in a transaction
# A pause between transactions lets others write: SQLite does not serve waiting writers in turn.
PAUSE_SECONDS = 0.01
# A version that is not visible after this time belongs to an import that was broken off.
ABANDONED_SECONDS = 3600.0


def stage(database: Database, model: ModelVersion, rules: HeldRules) -> None:
    """Writes the version and its rules, invisible to everybody."""
    _hide(model)
    with database.write() as session:
        session.add(model)
    waiting = iter(rules)
    for first in range(0, len(rules), outcomes.CHUNK_RULES):
        chunk = [json.loads(rule) for rule in islice(waiting, outcomes.CHUNK_RULES)]
        with database.write() as session:
            outcomes.add_rules(session, model.id, chunk, first)
        time.sleep(PAUSE_SECONDS)


def _hide(model: ModelVersion) -> None:
    model.tenant, model.name, model.version, model.status = IMPORTING, model.id, 1, "pending"


def stage_rules(write: Write, job: Job, claim: Claim, rules: Sequence[Mapping[str, Any]]) -> str | None:
    """Writes the rules of a training; returns the version that has those of a seed until the best is chosen.

    `write` may repeat a transaction whose commit it has not heard of. Raises LeaseLost if the claim no longer holds.
    """
    is_seed = job.parent_id is not None
    if is_seed and not rules:
        return None
    model_id = new_id("model") if is_seed else job.model_id
    if is_seed:
        write(partial(_stage_empty, claim, model_id))
    for first in range(0, len(rules), outcomes.CHUNK_RULES):
        write(partial(_stage_chunk, claim, model_id, rules[first : first + outcomes.CHUNK_RULES], first))
        time.sleep(PAUSE_SECONDS)
    write(partial(_drop_from, claim, model_id, len(rules)))
    return model_id if is_seed else None


def _stage_empty(claim: Claim, model_id: str, session: Session) -> None:
    check_held(session, claim, until_commit=True)
    trained = session.get_one(ModelVersion, session.get_one(Job, claim.job_id).model_id)
    like = {name: getattr(trained, name) for name in ("kb_sha256", "kind", "method", "code_version")}
    model = ModelVersion(id=model_id, config={}, metrics={}, tags={}, trained_by=claim.job_id, **like)
    _hide(model)
    session.merge(model)


def _stage_chunk(claim: Claim, model_id: str, rules: Sequence[Mapping[str, Any]], first: int, session: Session) -> None:
    check_held(session, claim, until_commit=True)
    # An earlier attempt may have left some, and so may this one: a commit that was not heard of is repeated.
    some = RuleRow.position.between(first, first + len(rules) - 1)
    session.execute(delete(RuleRow).where(RuleRow.model_id == model_id, some))
    outcomes.add_rules(session, model_id, rules, first)


def _drop_from(claim: Claim, model_id: str, first: int, session: Session) -> None:
    """Removes what an earlier attempt has left beyond the rules of this one."""
    check_held(session, claim, until_commit=True)
    session.execute(delete(RuleRow).where(RuleRow.model_id == model_id, RuleRow.position >= first))


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
    for first in range(0, -1 if last is None else last + 1, outcomes.CHUNK_RULES):
        some = RuleRow.position.between(first, first + outcomes.CHUNK_RULES - 1)
        with database.write() as session:
            session.execute(delete(RuleRow).where(RuleRow.model_id.in_(models), some))
        time.sleep(PAUSE_SECONDS)


def sweep(database: Database) -> None:
    """Removes what imports and trainings that were broken off have left, and the rules of deleted versions."""
    with database.read() as session:
        abandoned = session.scalars(select(ModelVersion.id).where(ModelVersion.tenant == IMPORTING, _abandoned())).all()
        has_rules = exists().where(RuleRow.model_id == ModelVersion.id)
        ended = session.scalars(select(ModelVersion.id).where(ModelVersion.status.in_(ENDED), has_rules)).all()
    for model_id in ended:
        _forget_rules(database, ModelVersion.id == model_id, ModelVersion.status.in_(ENDED))
    for model_id in abandoned:
        unstage(database, model_id)
        log.info("staged_swept", model_id=model_id)


def _abandoned() -> ColumnElement[bool]:
    """An import that has taken too long, or a training that has ended, as has the parent that may choose its model."""
    old = ModelVersion.created_at < now() - ABANDONED_SECONDS
    active = select(Job.id).where(Job.status.in_(ACTIVE))
    needed = select(Job.id).where(or_(Job.status.in_(ACTIVE), Job.parent_id.in_(active)))
    return case((ModelVersion.trained_by.is_(None), old), else_=ModelVersion.trained_by.not_in(needed))
