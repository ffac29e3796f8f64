"""Routes `/train`, `/jobs` and `/presets`."""

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi.sse import EventSourceResponse
from sqlalchemy.orm import Session

from ctp_core.methods import method_texts
from ctp_core.presets import DEFAULT_PRESET, PRESETS
from service.http.bodies import json_body
from service.http.dependencies import DatabaseDep, FeedsDep, FilesDep, SettingsDep, TenantDep, WaitingDep
from service.http.idempotency import CreationReply
from service.http.openapi import TEXT, example, json_request
from service.http.pages import DEFAULT_LIMIT, Cursor, Limit, Page, decode_cursor, page
from service.http.places import PlacedStream
from service.kbs import service as kbs
from service.training import capacity, repository, service
from service.training.events import Position
from service.training.feed import stream
from service.training.schemas import (
    EXAMPLE_EVENT,
    EXAMPLE_JOB,
    EXAMPLE_PRESET,
    EXAMPLE_TRAIN,
    ForecastOut,
    JobOut,
    ModelRef,
    PresetOut,
    TrainRequest,
    TrainResponse,
)
from service.training.submission import Submission, Wait, finished

router = APIRouter(tags=["training"])
JobType = Literal["train", "evaluate", "predict"]
JobStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
LastEventId = Annotated[
    str | None,
    Header(max_length=1200, description="Id of the last event that you received; omit it to start from the beginning."),
]
# Status of a job -> status of its model version.
MODEL_STATUS = {
    "queued": "pending",
    "running": "pending",
    "succeeded": "ready",
    "failed": "failed",
    "cancelled": "cancelled",
}


@router.post(
    "/train",
    summary="Train a model",
    status_code=202,
    responses=example(202, EXAMPLE_TRAIN),
    openapi_extra=json_request(TrainRequest),
)
async def train(
    request: Annotated[TrainRequest, Depends(json_body(TrainRequest))],
    database: DatabaseDep,
    files: FilesDep,
    settings: SettingsDep,
    submission: Annotated[Submission, Depends()],
) -> TrainResponse:
    """Train a model on a KB. The answer names the job to follow and the model version that it will create."""

    def create(session: Session) -> CreationReply:
        job, model = service.submit(session, submission.tenant, request, settings)
        body = TrainResponse(job=service.shown(session, [job])[0], model=ModelRef.model_validate(vars(model)))
        return CreationReply(202, body.model_dump(mode="json"), {"Location": f"/jobs/{job.id}"})

    check = partial(service.check, database, files, submission.tenant, request)
    body, job = await submission.run(request, create, lambda body: str(body["job"]["id"]), check)
    answer = TrainResponse.model_validate(body)
    if job is not None:
        answer.job, answer.model.status = job, MODEL_STATUS[job.status]
    return answer


@router.get("/jobs", responses=example(200, {"items": [EXAMPLE_JOB], "next_cursor": None}))
def list_jobs(
    database: DatabaseDep,
    tenant: TenantDep,
    status: Annotated[JobStatus | None, Query(description="List only jobs of this status.")] = None,
    type: Annotated[JobType | None, Query(description="List only jobs of this type.")] = None,  # noqa: A002
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[JobOut]:
    """List your jobs, newest first."""
    before, wanted = decode_cursor(cursor, float, str), repository.JobFilter(status, type)
    with database.read() as session:
        rows = repository.listing(session, tenant, wanted, (before[0], before[1]) if before else None, limit + 1)
        items = {item.id: item for item in service.shown(session, rows)}
    return page(rows, limit, lambda row: items[row.id], lambda row: [row.created_at, row.id])


@router.get("/jobs/{job_id}", responses=example(200, EXAMPLE_JOB))
async def get_job(
    job_id: str, database: DatabaseDep, tenant: TenantDep, waiting: WaitingDep, feeds: FeedsDep, wait: Wait = 0
) -> JobOut:
    """Get the state and progress of a job."""
    if wait:
        with waiting.place(tenant):
            return await finished(feeds.of(tenant, job_id), wait)

    def look_up() -> JobOut:
        with database.read() as session:
            return service.look_up(session, tenant, job_id)

    return await waiting.run(tenant, look_up)


@router.get(
    "/jobs/{job_id}/events",
    # Not EventSourceResponse, with which FastAPI expects a generator, which cannot answer 204.
    response_class=Response,
    responses={
        200: {"content": {EventSourceResponse.media_type: TEXT | {"example": EXAMPLE_EVENT}}},
        204: {"description": "The job has ended, and `Last-Event-ID` is its last event."},
    },
)
async def follow_job(
    job_id: str, tenant: TenantDep, waiting: WaitingDep, feeds: FeedsDep, last_event_id: LastEventId = None
) -> Response:
    """Follow a job by Server-Sent Events: epochs, progress and status. `Last-Event-ID` resumes after that event."""
    seen = Position.parse(last_event_id)
    feed = feeds.of(tenant, job_id)
    # A call that gets no place must not cost a look into the database.
    with waiting.place(tenant):
        await feed.look()
    if seen.ended:
        # 204 makes a browser stop reconnecting.
        return Response(status_code=204)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    waiting.take(tenant)
    return PlacedStream(waiting, tenant, stream(feed, seen), headers=headers, media_type=EventSourceResponse.media_type)


@router.post("/jobs/{job_id}/cancel", responses=example(200, EXAMPLE_JOB | {"status": "cancelled"}))
def cancel_job(job_id: str, database: DatabaseDep, settings: SettingsDep, tenant: TenantDep) -> JobOut:
    """Cancel a queued or running job. The model version of a training keeps its number but gets no files."""
    return service.cancel(database, tenant, job_id, settings.lease_seconds)


@router.get("/presets", responses=example(200, {"items": [EXAMPLE_PRESET], "next_cursor": None}))
def list_presets(
    database: DatabaseDep,
    files: FilesDep,
    tenant: TenantDep,
    kb: Annotated[str, Query(max_length=64, description="Id or name of the KB.")],
    method: Annotated[
        str | None, Query(max_length=64, description="Method to show settings for; default: the preset's own.")
    ] = None,
) -> Page[PresetOut]:
    """List the presets of a KB with their settings, for the default method or another of its `methods`."""
    kbs.count(database, files, tenant, kb)
    with database.read() as session:
        found = kbs.get(session, tenant, kb)
        profile, configs = kbs.profile_of(found), service.preset_configs(found, method)
        forecasts = {name: capacity.forecast(session, config, profile) for name, config in configs.items()}
    texts = method_texts(profile.kind)
    return Page(
        items=[
            PresetOut(
                name=name,
                text=PRESETS[name].text,
                default=name == DEFAULT_PRESET,
                config=config.model_dump(mode="json"),
                forecast=ForecastOut.model_validate(capacity.shown(forecasts[name])),
                methods=list(texts),
                method_texts=texts,
                setting_texts=service.setting_texts(config),
            )
            for name, config in configs.items()
        ]
    )
