"""`/models`."""

import csv
import io
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from service.db.tables import RuleRow
from service.dependencies import DatabaseDep, TenantDep
from service.models import repository, service
from service.models.schemas import EXAMPLE_MODEL, EXAMPLE_RULE, EpochOut, ModelOut, RuleOut
from service.openapi import example
from service.pages import DEFAULT_LIMIT, Cursor, Limit, Page, decode_cursor, page

router = APIRouter(prefix="/models", tags=["models"])
CSV_COLUMNS = ("id", "text", "template", "confidence", "support", "precision")


@router.get("", responses=example(200, {"items": [EXAMPLE_MODEL], "next_cursor": None}))
def list_models(
    database: DatabaseDep,
    tenant: TenantDep,
    name: Annotated[str | None, Query(max_length=64)] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[ModelOut]:
    """Model versions, newest first."""
    before = decode_cursor(cursor, float, str)
    with database.read() as session:
        rows = repository.listing(session, tenant, name, (before[0], before[1]) if before else None, limit + 1)
        items = {item.id: item for item in service.shown(session, rows)}
    return page(rows, limit, lambda row: items[row.id], lambda row: [row.created_at, row.id])


@router.get("/{model}", responses=example(200, EXAMPLE_MODEL))
def get_model(model: str, database: DatabaseDep, tenant: TenantDep) -> ModelOut:
    """One version: by id, `name` (the latest ready one), `name@3` or `name@champion`."""
    with database.read() as session:
        return service.shown(session, [service.get(session, tenant, model)])[0]


@router.get("/{model}/metrics")
def list_metrics(
    model: str, database: DatabaseDep, tenant: TenantDep, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Page[EpochOut]:
    """Loss and validation metrics by epoch."""
    after = decode_cursor(cursor, int) or [0]
    with database.read() as session:
        row = service.get(session, tenant, model)
        job_id = repository.jobs(session, [row]).get(row.id, "")
        rows = repository.metrics(session, job_id, after[0], limit + 1)
    return page(rows, limit, lambda m: EpochOut.model_validate({**vars(m), "metrics": m.values}), lambda m: [m.epoch])


@router.get(
    "/{model}/rules",
    responses=example(200, {"items": [EXAMPLE_RULE], "next_cursor": None}),
    response_model=Page[RuleOut],
)
def list_rules(
    model: str,
    database: DatabaseDep,
    tenant: TenantDep,
    predicate: Annotated[str | None, Query(max_length=512, description="Predicate of the head.")] = None,
    min_confidence: Annotated[float, Query(ge=0, le=1)] = 0.0,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    accept: Annotated[str, Header()] = "application/json",
) -> Page[RuleOut] | Response:
    """What the model learnt, best first. `Accept: text/plain` gives Prolog, `text/csv` a table."""
    after = decode_cursor(cursor, int) or [-1]
    with database.read() as session:
        row = service.ready(session, tenant, model)
        rows = repository.rules(session, row, predicate, min_confidence, after[0], limit + 1)
    if "text/plain" in accept:
        return Response("".join(f"{rule.text}.\n" for rule in rows[:limit]), media_type="text/plain")
    if "text/csv" in accept:
        return Response(_csv(rows[:limit]), media_type="text/csv")
    return page(rows, limit, _shown_rule, lambda rule: [rule.position])


def _shown_rule(rule: RuleRow) -> RuleOut:
    return RuleOut.model_validate({**vars(rule), "id": rule.rule_id})


def _csv(rules: Sequence[RuleRow]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(CSV_COLUMNS)
    writer.writerows([r.rule_id, r.text, r.template, r.confidence, r.support, r.precision] for r in rules)
    return text.getvalue()
