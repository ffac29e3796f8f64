"""`/train`, `/jobs` and `/presets`."""

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from ctp_core.config import presets
from service.bodies import json_body
from service.db.engine import Database
from service.db.tables import Job, ModelVersion
from service.dependencies import DatabaseDep, TenantDep
from service.kbs import service as kbs
from service.models import service as models
from service.openapi import example, json_request
from service.pages import DEFAULT_LIMIT, Cursor, Limit, Page, decode_cursor, page
from service.training import repository, service
from service.training.schemas import (
    EXAMPLE_JOB,
    EXAMPLE_TRAIN,
    JobOut,
    ModelRef,
    PresetOut,
    TrainRequest,
    TrainResponse,
)

router = APIRouter(tags=["training"])
MAX_WAIT_SECONDS = 300
WAIT_STEP_SECONDS = 0.2
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for the job to end.")]


def shown(job: Job) -> JobOut:
    return JobOut.model_validate(vars(job))


async def finished(database: Database, tenant: str, job_id: str, seconds: float) -> Job:
    """The job when it has ended, or as it is when the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        job = await asyncio.to_thread(_look_up, database, tenant, job_id)
        if job.status in repository.TERMINAL or time.monotonic() >= deadline:
            return job
        await asyncio.sleep(WAIT_STEP_SECONDS)


def _look_up(database: Database, tenant: str, job_id: str) -> Job:
    with database.read() as session:
        return service.get(session, tenant, job_id)


def _look_up_model(database: Database, tenant: str, model_id: str) -> ModelVersion:
    with database.read() as session:
        return models.get(session, tenant, model_id)


@router.post("/train", status_code=202, responses=example(202, EXAMPLE_TRAIN), openapi_extra=json_request(TrainRequest))
async def train(
    request: Annotated[TrainRequest, Depends(json_body(TrainRequest))],
    response: Response,
    database: DatabaseDep,
    tenant: TenantDep,
    wait: Wait = 0,
) -> TrainResponse:
    """Train a model on a KB. The answer names the job to follow and the model version that it will fill."""
    job, model = await asyncio.to_thread(service.submit, database, tenant, request)
    response.headers["Location"] = f"/jobs/{job.id}"
    if wait:
        job = await finished(database, tenant, job.id, wait)
        model = await asyncio.to_thread(_look_up_model, database, tenant, model.id)
    return TrainResponse(job=shown(job), model=ModelRef.model_validate(vars(model)))


@router.get("/jobs", responses=example(200, {"items": [EXAMPLE_JOB], "next_cursor": None}))
def list_jobs(
    database: DatabaseDep, tenant: TenantDep, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Page[JobOut]:
    """Your jobs, newest first."""
    before = decode_cursor(cursor, float, str)
    with database.read() as session:
        rows = repository.listing(session, tenant, (before[0], before[1]) if before else None, limit + 1)
    return page(rows, limit, shown, lambda job: [job.created_at, job.id])


@router.get("/jobs/{job_id}", responses=example(200, EXAMPLE_JOB))
async def get_job(job_id: str, database: DatabaseDep, tenant: TenantDep, wait: Wait = 0) -> JobOut:
    """How far a job is."""
    return shown(await finished(database, tenant, job_id, wait))


@router.post("/jobs/{job_id}/cancel", responses=example(200, EXAMPLE_JOB | {"status": "cancelled"}))
def cancel_job(job_id: str, database: DatabaseDep, tenant: TenantDep) -> JobOut:
    """Stop a job: at once where it is queued, within seconds where it runs."""
    return shown(service.cancel(database, tenant, job_id))


@router.get("/presets", responses=example(200, [{"name": "fast", "config": {"method": "proofs", "seed": 0}}]))
def list_presets(database: DatabaseDep, tenant: TenantDep, kb: Annotated[str, Query(max_length=64)]) -> list[PresetOut]:
    """What each preset means for a KB."""
    with database.read() as session:
        profile = service.profile_of(kbs.get(session, tenant, kb))
    return [PresetOut(name=name, config=config.model_dump(mode="json")) for name, config in presets(profile).items()]
