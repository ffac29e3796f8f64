"""`client.jobs`."""

import time
from collections.abc import Iterator
from typing import TypeVar

from ctp_client.events import follow
from ctp_client.transport import Transport, segment
from ctp_client.types import Evaluation, Event, Job, Prediction

WAIT_STEP_SECONDS = 30.0
Finishing = TypeVar("Finishing", Job, Evaluation, Prediction)


def when_finished(transport: Transport, kind: type[Finishing], path: str, timeout: float) -> Finishing:
    """What is at this path when it has ended, or as it is when the time is up."""
    deadline = time.monotonic() + timeout
    while True:
        step = max(0.0, min(WAIT_STEP_SECONDS, deadline - time.monotonic()))
        found = transport.get(kind, path, wait=step)
        if found.finished or time.monotonic() >= deadline:
            return found


class Jobs:
    """Training jobs."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, limit: int | None = None) -> Iterator[Job]:
        """Newest first."""
        return self._transport.items(Job, "/jobs", limit)

    def get(self, job: str) -> Job:
        return self._transport.get(Job, f"/jobs/{segment(job)}")

    def events(self, job: str, last_event_id: str | None = None) -> Iterator[Event]:
        """What happens in a job, until it ends; survives broken connections."""
        return follow(self._transport, f"/jobs/{segment(job)}/events", last_event_id)

    def wait(self, job: str, timeout: float = float("inf")) -> Job:
        """The job when it has ended, or as it is when the time is up."""
        return when_finished(self._transport, Job, f"/jobs/{segment(job)}", timeout)

    def cancel(self, job: str) -> Job:
        return Job.model_validate(self._transport.send("POST", f"/jobs/{segment(job)}/cancel").json())
