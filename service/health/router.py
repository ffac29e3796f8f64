"""`/healthz`, `/readyz` and `/metrics`."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel

from service.health import metrics
from service.health.service import NOT_NEEDED
from service.http.dependencies import DatabaseDep
from service.http.openapi import example

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Check liveness", responses=example(200, {"status": "ok"}))
async def healthz() -> dict[str, str]:
    """Check that the API process answers."""
    return {"status": "ok"}


class Readiness(BaseModel):
    """Whether trainings and queries can be done, and how each part is."""

    status: str
    parts: dict[str, str]


@router.get(
    "/readyz",
    summary="Check readiness",
    response_model=Readiness,
    responses={
        **example(200, {"status": "ok", "parts": {"database": "ok", "queue": "ok"}}),
        503: {"model": Readiness, "description": "A part is missing."},
    },
)
async def readyz(request: Request) -> JSONResponse:
    """Check that every part that trainings and queries need is up; a 503 names the missing parts.

    `batch_worker`, for which evaluations wait, may be missing.
    """
    listens = "ok" if request.app.state.batcher.listens else "missing"
    parts = {**await request.app.state.parts.get(None), "replies": listens}
    ready = all(state == "ok" for part, state in parts.items() if part not in NOT_NEEDED)
    return JSONResponse({"status": "ok" if ready else "not ready", "parts": parts}, 200 if ready else 503)


EXAMPLE_METRIC = 'ctp_requests_total{method="POST",route="/query",status="200"} 12.0\n'


@router.get(
    "/metrics",
    summary="Get the metrics of the service",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"example": EXAMPLE_METRIC}}}},
)
def get_metrics(request: Request, database: DatabaseDep) -> Response:
    """Get counters and timings of the whole service, for Prometheus."""
    return Response(metrics.exposition(database, request.app.state.redis), media_type=metrics.CONTENT_TYPE)
