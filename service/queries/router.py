"""`/query`."""

import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse

from service.bodies import json_body
from service.dependencies import SettingsDep, TenantDep
from service.openapi import example, json_request
from service.queries import service
from service.queries.schemas import EXAMPLE_ANSWER, QueryRequest

router = APIRouter(tags=["queries"])
PROBLEM_JSON = "application/problem+json"


@router.post("/query", responses=example(200, EXAMPLE_ANSWER), openapi_extra=json_request(QueryRequest))
async def query(
    body: Annotated[QueryRequest, Depends(json_body(QueryRequest))],
    request: Request,
    settings: SettingsDep,
    tenant: TenantDep,
) -> JSONResponse:
    """Ask a model. One place of the goal may be null, which asks for it; the answers come with their proofs."""
    started = time.perf_counter()
    asked = service.questions(body, settings)
    target = await request.app.state.targets.find(tenant, body.model)
    replies = await service.ask(request.app.state.batcher, target, asked)
    for number, reply in enumerate(replies):
        if "problem" in reply:
            return _problem(reply["problem"], number if body.goals is not None else None)
    results = [reply["answers"] for reply in replies]
    head = {"model_id": target.model_id, "elapsed_ms": round((time.perf_counter() - started) * 1000, 3)}
    if body.goals is None:
        return JSONResponse(head | results[0])
    goals = [goal.model_dump() for goal in body.goals]
    return JSONResponse(head | {"results": [{"goal": g} | r for g, r in zip(goals, results, strict=True)]})


def _problem(problem: dict[str, Any], number: int | None) -> JSONResponse:
    if number is not None:
        problem = problem | {"detail": f"goals.{number}: {problem['detail']}"}
    return JSONResponse(problem, problem["status"], media_type=PROBLEM_JSON)
