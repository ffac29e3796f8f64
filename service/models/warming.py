"""Has a query worker load a model before anybody asks it."""

import time
from typing import Any

from service.db.engine import Database
from service.facts.files import KbFiles
from service.kbs import service as kbs
from service.kbs.whole import KbRows
from service.models import repository, service
from service.models.probe import PROBE
from service.models.schemas import Warmed
from service.queries.batcher import Batcher, Target
from service.queries.wire import Problem

ANYTHING = (None, None, None)
UNANSWERABLE = 422  # what was asked is not for this model, which was loaded to tell


def question(database: Database, files: KbFiles, tenant: str, reference: str) -> tuple[Target, dict[str, Any]]:
    """Returns a model and something to ask it: a model builds much when it is asked for the first time.

    Raises NotFound or Conflict if the model cannot answer.
    """
    with database.read() as session:
        model = service.ready(session, tenant, reference)
        target = Target(tenant, model.id, model.artifact or "")
        kb = repository.kb_of(session, model)
        if kb is None or kb.kind != "facts":
            return target, PROBE
        rows = KbRows.of(session, kb)
    (found,) = kbs.facts(rows.open(files), ANYTHING, None, 1)
    return target, PROBE | {"goal": [found.fact.subject, found.fact.predicate, None]}


async def warm(batcher: Batcher, target: Target, asked: dict[str, Any], request_id: str) -> Warmed | Problem:
    """Asks; returns the problem of a model that cannot be loaded, or of a worker that is not there."""
    started = time.perf_counter()
    (reply,) = await batcher.ask(target, [asked], request_id)
    if isinstance(reply, dict) and reply["status"] != UNANSWERABLE:
        return reply
    return Warmed(model_id=target.model_id, elapsed_ms=1000 * (time.perf_counter() - started))
