"""Turns a query into questions for a worker, and the worker's replies into the answer."""

import json
from typing import Any

from ctp_core.errors import ArtifactError
from service.db.engine import Database
from service.errors import Invalid, PayloadTooLarge
from service.http.cache import Cache
from service.http.pieces import too_many_facts
from service.http.turns import Turns
from service.kbs import service as kbs
from service.models import service as models
from service.queries.batcher import Batcher, Target
from service.queries.logical import logical_question
from service.queries.schemas import GoalIn, QueryRequest
from service.queries.wire import Problem, Reply
from service.settings import Settings

Reference = tuple[str, str, str | None]  # tenant, model, kb
THREADS = 4


class Targets:
    """Finds the model that a name currently refers to; remembers it, or that there is none, for a moment.

    Tenants take turns: to find the names that are near a misspelt one takes long.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._turns = Turns(THREADS, "target")
        self._known = Cache(self._look_up, run=lambda reference, look_up: self._turns.run(reference[0], look_up))

    async def find(self, reference: Reference, *, fresh: bool = False) -> Target:
        """Returns the target of a query; raises NotFound or Conflict if the model cannot answer."""
        return await self._known.get(reference, fresh=fresh)

    def stop(self) -> None:
        self._turns.stop()

    def _look_up(self, reference: Reference) -> Target:
        return self._target(*reference)

    def _target(self, tenant: str, model_name: str, kb_name: str | None) -> Target:
        with self.database.read() as session:
            model = models.ready(session, tenant, model_name)
            kb = None if kb_name is None else kbs.get(session, tenant, kb_name)
            own = kb is None or kb.sha256 == model.kb_sha256
            return Target(tenant, model.id, model.artifact or "", None if own or kb is None else kb.id)


def questions(request: QueryRequest, settings: Settings) -> list[dict[str, Any]]:
    """Returns one question per goal, or the one of `where`.

    Raises Invalid or PayloadTooLarge if they are wrong or too many, BadQuery if `where` is wrong.
    """
    if sum(asked is not None for asked in (request.goal, request.goals, request.where)) != 1:
        raise Invalid("missing_goal", "send exactly one of `goal`, `goals` and `where`")
    if request.where is not None:
        _check_facts(request, settings)
        if request.depth is not None or request.exclude_known:
            raise Invalid("not_of_where", "`depth` and `exclude_known` belong to `goal` and `goals`, not to `where`")
        return [logical_question(request, _shared(request), settings)]
    goals = request.goals if request.goals is not None else [request.goal or GoalIn()]
    _check_size(request, len(goals), settings)
    if request.goals is None:  # of many, a wrong one is told of by its own result
        _check_goal(goals[0])
    shared = _shared(request)
    return [{**shared, "goal": [goal.subject, goal.predicate, goal.object]} for goal in goals]


def _shared(request: QueryRequest) -> dict[str, Any]:
    return {
        "facts": request.facts,
        "without": request.without,
        "top_k": request.top_k,
        "proofs": request.proofs,
        "depth": request.depth,
        "exclude_known": request.exclude_known,
    }


def _check_size(request: QueryRequest, num_goals: int, settings: Settings) -> None:
    if num_goals > settings.max_goals:
        raise PayloadTooLarge("too_many_goals", f"a query may have at most {settings.max_goals} goals (CTP_MAX_GOALS)")
    _check_facts(request, settings)
    results = num_goals * request.top_k * (1 + request.proofs)
    if results > settings.max_query_results:
        raise PayloadTooLarge(
            "too_many_results",
            f"goals x top_k x (1 + proofs) is {results}, more than {settings.max_query_results} "
            "(CTP_MAX_QUERY_RESULTS): ask for less at once",
        )


def _check_facts(request: QueryRequest, settings: Settings) -> None:
    if len(request.facts) + len(request.without) > settings.max_query_facts:
        raise too_many_facts(settings.max_query_facts)


def _check_goal(goal: GoalIn) -> None:
    places = {"subject": goal.subject, "predicate": goal.predicate, "object": goal.object}
    unknown = [place for place, name in places.items() if name is None]
    if len(unknown) > 1:
        raise Invalid(
            "too_many_unknowns", f"a goal may leave one place open; this one leaves open {', '.join(unknown)}"
        )


async def ask(
    targets: Targets, batcher: Batcher, reference: Reference, asked: list[dict[str, Any]], request_id: str
) -> tuple[Target, list[Reply]]:
    """Asks the model; if its files are gone, looks its name up again and asks the new version, if any."""
    target = await targets.find(reference)
    replies = await batcher.ask(target, asked, request_id)
    if any(isinstance(reply, dict) and reply["code"] == ArtifactError.code for reply in replies):
        now = await targets.find(reference, fresh=True)
        if now != target:
            return now, await batcher.ask(now, asked, request_id)
    return target, replies


def answer_body(target: Target, elapsed_ms: float, replies: list[Reply], goals: list[GoalIn] | None) -> bytes:
    """Returns the answer as JSON, built around the workers' bytes. Of many goals, each has an answer or a problem."""
    head = b'{"model_id":%b,"elapsed_ms":%.3f' % (json.dumps(target.model_id).encode(), elapsed_ms)
    told = [_told(reply) for reply in replies]
    if goals is None:
        return b"%b,%b}" % (head, told[0])
    results = b",".join(
        b'{"goal":%b,%b}' % (goal.model_dump_json().encode(), reply) for goal, reply in zip(goals, told, strict=True)
    )
    return b'%b,"results":[%b]}' % (head, results)


def _told(reply: Reply) -> bytes:
    return b'"problem":%b' % json.dumps(reply).encode() if isinstance(reply, dict) else reply


def problem_of(replies: list[Reply], one_goal: bool) -> Problem | None:
    """Returns the problem of the whole call: that of its one goal, or one of the model or its worker, for all goals."""
    problems = [reply for reply in replies if isinstance(reply, dict)]
    if not problems or (not one_goal and (len(problems) < len(replies) or any(p["status"] == 422 for p in problems))):
        return None
    return problems[0]
