"""Route `/query`."""

import time

from fastapi import APIRouter, Request
from fastapi.responses import Response

from service.http.bodies import read_json
from service.http.dependencies import get_tenant
from service.http.openapi import example, json_request
from service.http.parameters import check_parameters
from service.http.problems import respond, retry_headers
from service.queries import service
from service.queries.answers import ExplanationOut, QueryOut
from service.queries.explain_schemas import EXAMPLE_EXPLANATION, ExplainRequest
from service.queries.logical import explain_question
from service.queries.schemas import EXAMPLE_ANSWER, QueryRequest

router = APIRouter(tags=["queries"])


@router.post(
    "/query",
    summary="Ask a model",
    response_model=QueryOut,
    responses=example(200, EXAMPLE_ANSWER),
    openapi_extra=json_request(QueryRequest),
)
async def query(request: Request) -> Response:
    """Ask a model a question. The null place of a goal is the one asked for; answers come with their proofs."""
    # No FastAPI dependencies: resolving them takes longer than everything else here.
    started = time.perf_counter()
    state, tenant = request.app.state, await get_tenant(request)
    await check_parameters(request)
    body = await read_json(request, QueryRequest, state.settings.max_query_facts)
    asked = service.questions(body, state.settings)
    request_id = request.scope.get("ctp.request_id", "")
    target, replies = await service.ask(state.targets, state.batcher, (tenant, body.model, body.kb), asked, request_id)
    problem = service.problem_of(replies, body.goals is None)
    if problem is not None:
        return respond(problem, retry_headers(problem["status"]))
    elapsed_ms = (time.perf_counter() - started) * 1000
    content = service.answer_body(target, elapsed_ms, replies, body.goals)
    return Response(content, media_type="application/json")


@router.post(
    "/explain",
    summary="Explain a fact",
    response_model=ExplanationOut,
    responses=example(200, EXAMPLE_EXPLANATION),
    openapi_extra=json_request(ExplainRequest),
)
async def explain(request: Request) -> Response:
    """Why a fact has its score, why it has no better one, and without which facts it would fall below a threshold.

    `why` is the answer to the fact with its proofs. `why_not` lists rules that lack one fact, those that would raise
    the score most first. `what_would_change_it` is a smallest set of facts whose removal takes the score below
    `threshold`; where there is none, `reason` says why: `below_threshold`, `rests_on_no_facts`, `rests_on_more` than
    the facts of its proofs, or `out_of_time`.
    """
    started = time.perf_counter()
    state, tenant = request.app.state, await get_tenant(request)
    await check_parameters(request)
    body = await read_json(request, ExplainRequest, state.settings.max_query_facts)
    asked = [explain_question(body, state.settings)]
    request_id = request.scope.get("ctp.request_id", "")
    target, [reply] = await service.ask(state.targets, state.batcher, (tenant, body.model, body.kb), asked, request_id)
    if isinstance(reply, dict):
        return respond(reply, retry_headers(reply["status"]))
    elapsed_ms = (time.perf_counter() - started) * 1000
    return Response(service.answer_body(target, elapsed_ms, [reply], None), media_type="application/json")
