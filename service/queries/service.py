"""From a query to the questions a worker understands, and from its replies to the answer."""

import asyncio
import time
from typing import Any

from service.db.engine import Database
from service.errors import Invalid, PayloadTooLarge
from service.models import service as models
from service.queries.batcher import Batcher, Target
from service.queries.schemas import GoalIn, QueryRequest
from service.settings import Settings

CACHE_SECONDS = 2.0


class Targets:
    """Which model a name means now, remembered for at most two seconds so that a query needs no database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._known: dict[tuple[str, str], tuple[float, Target]] = {}

    async def find(self, tenant: str, reference: str) -> Target:
        found = self._known.get((tenant, reference))
        if found is not None and time.monotonic() - found[0] < CACHE_SECONDS:
            return found[1]
        asked = time.monotonic()
        target = await asyncio.to_thread(self._look_up, tenant, reference)
        self._known = {key: value for key, value in self._known.items() if asked - value[0] < CACHE_SECONDS}
        self._known[tenant, reference] = (asked, target)
        return target

    def _look_up(self, tenant: str, reference: str) -> Target:
        with self.database.read() as session:
            model = models.ready(session, tenant, reference)
            return Target(model.id, model.artifact or "")


def questions(request: QueryRequest, settings: Settings) -> list[dict[str, Any]]:
    """One question for each goal; raises where the goals contradict each other or are too many."""
    if (request.goal is None) == (request.goals is None):
        raise Invalid("missing_goal", "send either `goal` or `goals`")
    goals = request.goals if request.goals is not None else [request.goal or GoalIn()]
    if len(goals) > settings.max_goals:
        raise PayloadTooLarge("too_many_goals", f"a query may have {settings.max_goals} goals at most")
    if len(request.facts) > settings.max_query_facts:
        raise PayloadTooLarge("too_many_facts", f"a query may bring {settings.max_query_facts} facts at most")
    for goal in goals:
        _check_goal(goal)
    shared = request.model_dump(include={"facts", "top_k", "proofs", "depth", "exclude_known"})
    return [{**shared, "goal": [goal.subject, goal.predicate, goal.object]} for goal in goals]


def _check_goal(goal: GoalIn) -> None:
    places = {"subject": goal.subject, "predicate": goal.predicate, "object": goal.object}
    unknown = [place for place, name in places.items() if name is None]
    if len(unknown) > 1:
        raise Invalid("too_many_unknowns", f"a goal may leave one place open, this one leaves {', '.join(unknown)}")


async def ask(batcher: Batcher, target: Target, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(batcher.ask(target, question) for question in asked)))
