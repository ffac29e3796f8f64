"""Routes under `/predictions`."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from sqlalchemy.orm import Session

from service.http.bodies import json_body
from service.http.dependencies import (
    DatabaseDep,
    DownloadingDep,
    FeedsDep,
    FilesDep,
    SettingsDep,
    StorageDep,
    TenantDep,
    WaitingDep,
)
from service.http.idempotency import CreationReply
from service.http.openapi import TEXT, Responses, binary, example, json_request
from service.http.pages import DEFAULT_LIMIT, Cursor, Limit, Page, decode_cursor, page
from service.http.places import download
from service.models import service as models
from service.predictions import service
from service.predictions.schemas import (
    EXAMPLE_CSV,
    EXAMPLE_LINES,
    EXAMPLE_NEW,
    EXAMPLE_PREDICTION,
    EXAMPLE_ROW,
    FORMATS,
    PredictionOut,
    PredictionRequest,
    PredictionRow,
)
from service.training import repository as jobs
from service.training.router import JobStatus
from service.training.submission import Submission, Wait, finished

router = APIRouter(prefix="/predictions", tags=["predictions"])
FILES: Responses = {
    200: {
        "content": {
            **binary(FORMATS["parquet"].media_type),
            "text/csv": TEXT | {"example": EXAMPLE_CSV},
            FORMATS["jsonl"].media_type: TEXT | {"example": EXAMPLE_LINES},
        }
    }
}


@router.post(
    "",
    summary="Predict in bulk",
    status_code=202,
    responses=example(202, EXAMPLE_NEW),
    openapi_extra=json_request(PredictionRequest),
)
async def create_prediction(
    request: Annotated[PredictionRequest, Depends(json_body(PredictionRequest))],
    database: DatabaseDep,
    settings: SettingsDep,
    files: FilesDep,
    waiting: WaitingDep,
    submission: Annotated[Submission, Depends()],
) -> PredictionOut:
    """Find every missing fact of a predicate that a model believes. The answer names the job; its rows can be
    downloaded when it has succeeded."""
    tenant = submission.tenant

    def create(session: Session) -> CreationReply:
        job = service.submit(session, tenant, request, settings)
        body = service.look_up(session, tenant, job.id, settings)
        return CreationReply(202, body.model_dump(mode="json"), {"Location": f"/predictions/{job.id}"})

    check = partial(service.check, database, files, tenant, request)
    body, job = await submission.run(request, create, lambda body: str(body["id"]), check)
    if job is None:
        return PredictionOut.model_validate(body)
    return await waiting.run(tenant, partial(_look_up, database, settings, tenant, job.id))


def _look_up(database: DatabaseDep, settings: SettingsDep, tenant: str, prediction_id: str) -> PredictionOut:
    with database.read() as session:
        return service.look_up(session, tenant, prediction_id, settings)


@router.get("", summary="List predictions", responses=example(200, {"items": [EXAMPLE_ROW], "next_cursor": None}))
def list_predictions(
    database: DatabaseDep,
    settings: SettingsDep,
    tenant: TenantDep,
    model: Annotated[str | None, Query(max_length=160, description="List only predictions of this version.")] = None,
    status: Annotated[JobStatus | None, Query(description="List only predictions of this status.")] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[PredictionRow]:
    """List your predictions, newest first."""
    before = decode_cursor(cursor, float, str)
    with database.read() as session:
        model_id = None if model is None else models.get(session, tenant, model).id
        wanted = jobs.JobFilter(status, jobs.PREDICT, model_id)
        rows = jobs.listing(session, tenant, wanted, (before[0], before[1]) if before else None, limit + 1)
        items = {item.id: item for item in service.listed(session, rows, settings)}
    return page(rows, limit, lambda row: items[row.id], lambda row: [row.created_at, row.id])


@router.get("/{prediction_id}", summary="Get a prediction", responses=example(200, EXAMPLE_PREDICTION))
async def get_prediction(
    prediction_id: str,
    database: DatabaseDep,
    settings: SettingsDep,
    tenant: TenantDep,
    waiting: WaitingDep,
    feeds: FeedsDep,
    wait: Wait = 0,
) -> PredictionOut:
    """Get how far a prediction is, and what it found."""
    look_up = partial(_look_up, database, settings, tenant, prediction_id)
    if wait:
        await waiting.run(tenant, look_up)  # before waiting: a 404 at once
        with waiting.place(tenant):
            await finished(feeds.of(tenant, prediction_id), wait)
    return await waiting.run(tenant, look_up)


@router.get(
    "/{prediction_id}/download", summary="Download the rows of a prediction", response_class=Response, responses=FILES
)
async def download_prediction(
    prediction_id: str, database: DatabaseDep, storage: StorageDep, downloading: DownloadingDep, tenant: TenantDep
) -> Response:
    """Download the rows: by question in the order of the KB, best first. Columns are `subject`, `predicate`, `object`,
    `score`, `probability`, `rank`, `known`, `asked` (the place that was open) and, with proofs, `proof` and
    `proof_facts`."""
    begin = partial(service.download, database, storage, tenant, prediction_id)
    return await download(downloading, tenant, begin)


@router.delete("/{prediction_id}", summary="Delete a prediction", status_code=204)
def delete_prediction(prediction_id: str, database: DatabaseDep, tenant: TenantDep) -> None:
    """Forget a prediction that has ended, with its rows."""
    with database.write() as session:
        service.delete(session, tenant, prediction_id)
