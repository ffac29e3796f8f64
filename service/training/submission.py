"""What calls that make a job have in common, be it a training, an evaluation or a prediction."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel
from sqlalchemy.orm import Session

from service.http.dependencies import FeedsDep, OrderDep, WaitingDep
from service.http.idempotency import CreationReply
from service.training.feed import Feed
from service.training.repository import TERMINAL
from service.training.schemas import JobOut

MAX_WAIT_SECONDS = 300
Wait = Annotated[
    float,
    Query(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for the job to end, at most 300; 0: answer at once."),
]


async def finished(feed: Feed, seconds: float) -> JobOut:
    """Waits for the end of a job, at most `seconds`; returns its state then. The caller must hold a waiting place."""
    deadline = time.monotonic() + seconds
    while True:
        job = await feed.state()
        left = deadline - time.monotonic()
        if job.status in TERMINAL or left <= 0:
            return job
        await feed.until_next_state(left)


class Submission:
    """A FastAPI dependency. The call makes its job once, however often it is repeated, and waits for it if asked."""

    def __init__(
        self, response: Response, order: OrderDep, waiting: WaitingDep, feeds: FeedsDep, wait: Wait = 0
    ) -> None:
        self.tenant = order.tenant
        self._response, self._order, self._waiting, self._feeds, self._wait = response, order, waiting, feeds, wait

    async def run(
        self,
        request: BaseModel,
        create: Callable[[Session], CreationReply],
        id_in: Callable[[dict[str, Any]], str],
        check: Callable[[], None] | None = None,
    ) -> tuple[dict[str, Any], JobOut | None]:
        """(the body of the answer, the job after the wait that was asked for), `check` having come before `create`.

        `id_in` finds the id of the job in the body of an answer.
        """
        content = request.model_dump_json().encode()
        # The waiting place is taken first: a call that is refused one must not make a job.
        with self._waiting.place(self.tenant) if self._wait else nullcontext():
            reply = await self._order.create(content, create, check)
            self._response.headers.update(reply.headers)
            if not self._wait:
                return reply.body, None
            return reply.body, await finished(self._feeds.of(self.tenant, id_in(reply.body)), self._wait)
