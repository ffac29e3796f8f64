"""Routes under `/evaluations`."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from sqlalchemy.orm import Session

from service.evaluations import service
from service.evaluations.schemas import (
    EXAMPLE_EVALUATION,
    EXAMPLE_ROW,
    EvaluationOut,
    EvaluationRequest,
    EvaluationRow,
)
from service.http.bodies import json_body
from service.http.dependencies import DatabaseDep, FeedsDep, SettingsDep, TenantDep, WaitingDep
from service.http.idempotency import CreationReply
from service.http.openapi import example, json_request
from service.http.pages import DEFAULT_LIMIT, Cursor, Limit, Page, decode_cursor, page
from service.models import service as models
from service.training import repository as jobs
from service.training.router import JobStatus
from service.training.submission import Submission, Wait, finished

router = APIRouter(prefix="/evaluations", tags=["evaluations"])
EXAMPLE_NEW = {**EXAMPLE_EVALUATION, "status": "queued", "attempt": 0, "progress": {}, "metrics": {}}


@router.post(
    "",
    summary="Evaluate a model",
    status_code=202,
    responses=example(202, EXAMPLE_NEW),
    openapi_extra=json_request(EvaluationRequest),
)
async def create_evaluation(
    request: Annotated[EvaluationRequest, Depends(json_body(EvaluationRequest))],
    database: DatabaseDep,
    settings: SettingsDep,
    waiting: WaitingDep,
    submission: Annotated[Submission, Depends()],
) -> EvaluationOut:
    """Ask a model for every fact or graph of a split, and count how often it is right. The answer names the job."""

    def create(session: Session) -> CreationReply:
        job = service.submit(session, submission.tenant, request, settings)
        body = service.look_up(session, submission.tenant, job.id)
        return CreationReply(202, body.model_dump(mode="json"), {"Location": f"/evaluations/{job.id}"})

    body, job = await submission.run(request, create, lambda body: str(body["id"]))
    if job is None:
        return EvaluationOut.model_validate(body)
    return await waiting.run(submission.tenant, partial(_look_up, database, submission.tenant, job.id))


def _look_up(database: DatabaseDep, tenant: str, evaluation_id: str) -> EvaluationOut:
    with database.read() as session:
        return service.look_up(session, tenant, evaluation_id)


@router.get("", summary="List evaluations", responses=example(200, {"items": [EXAMPLE_ROW], "next_cursor": None}))
def list_evaluations(
    database: DatabaseDep,
    tenant: TenantDep,
    model: Annotated[str | None, Query(max_length=160, description="List only evaluations of this version.")] = None,
    status: Annotated[JobStatus | None, Query(description="List only evaluations of this status.")] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[EvaluationRow]:
    """List your evaluations, newest first, with their metrics."""
    before = decode_cursor(cursor, float, str)
    with database.read() as session:
        model_id = None if model is None else models.get(session, tenant, model).id
        wanted = jobs.JobFilter(status, jobs.EVALUATE, model_id)
        rows = jobs.listing(session, tenant, wanted, (before[0], before[1]) if before else None, limit + 1)
        items = {item.id: item for item in service.listed(session, rows)}
    return page(rows, limit, lambda row: items[row.id], lambda row: [row.created_at, row.id])


@router.get("/{evaluation_id}", summary="Get an evaluation", responses=example(200, EXAMPLE_EVALUATION))
async def get_evaluation(
    evaluation_id: str, database: DatabaseDep, tenant: TenantDep, waiting: WaitingDep, feeds: FeedsDep, wait: Wait = 0
) -> EvaluationOut:
    """Get the figures of an evaluation, or how far it is."""
    if wait:
        await waiting.run(tenant, lambda: _look_up(database, tenant, evaluation_id))  # before waiting: a 404 at once
        with waiting.place(tenant):
            await finished(feeds.of(tenant, evaluation_id), wait)
    return await waiting.run(tenant, lambda: _look_up(database, tenant, evaluation_id))


@router.delete("/{evaluation_id}", summary="Delete an evaluation", status_code=204)
def delete_evaluation(evaluation_id: str, database: DatabaseDep, tenant: TenantDep) -> None:
    """Forget an evaluation that has ended; the model stays."""
    with database.write() as session:
        service.delete(session, tenant, evaluation_id)
