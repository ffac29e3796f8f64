"""Streams the life of a job as Server-Sent Events, from the database alone: any API process can resume a stream.

`epoch`     epoch, loss, metrics, created_at, seed: once for each finished epoch
`progress`  phase, text, done, eta_seconds, elapsed_seconds, epoch, epochs, step, steps, loss, metrics and, if settings
            are searched, trials: the current state, when it has changed
`status`    the job, when its status, attempt or `waiting_for` has changed; a final status ends the stream
The id of an event is `status.attempt.epochs`, the last epoch of each seed joined by `-`: everything sent so far.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from service.db.engine import AWAY_ERRORS, Database
from service.db.tables import Job, Metric
from service.errors import Invalid
from service.models.schemas import EpochOut
from service.training import repository, service
from service.training.schemas import JobOut
from service.training.waiting import Waiting

POLL_SECONDS = 0.5
KEEPALIVE_SECONDS = 15.0
RETRY_MILLISECONDS = 1000
MAX_EPOCHS_AT_ONCE = 1000
_POSITION = re.compile(r"([a-z]{1,16})\.(\d{1,9})\.(\d{1,9}(?:-\d{1,9}){0,99})")


@dataclass
class Position:
    """The position of a listener in the stream."""

    status: str = ""
    attempt: int = -1
    epochs: list[int] = field(default_factory=list)

    @classmethod
    def parse(cls, text: str | None) -> "Position":
        """Parses `Last-Event-ID`; raises Invalid if this service did not make it."""
        if not text:
            return cls()
        match = _POSITION.fullmatch(text)
        if match is None:
            raise Invalid("bad_event_id", "the Last-Event-ID is not valid: start again without one")
        return cls(match[1], int(match[2]), [int(epoch) for epoch in match[3].split("-")])

    @property
    def ended(self) -> bool:
        return self.status in repository.TERMINAL

    def __str__(self) -> str:
        return f"{self.status or 'none'}.{max(self.attempt, 0)}.{'-'.join(map(str, self.epochs or [0]))}"


@dataclass(frozen=True)
class Look:
    """The state of a job at one moment, with its new epochs."""

    job: JobOut
    epochs: list[list[tuple[int | None, Metric]]]  # [seed, new epoch]


def look(database: Database, job: Job, seen: Position) -> Look:
    with database.read() as session:
        row = service.get(session, job.tenant, job.id)
        shown = service.shown(session, [row])[0]
        members = [(child.seed, child.id) for child in shown.children] or [(shown.seed, shown.id)]
        after = seen.epochs + [0] * (len(members) - len(seen.epochs))
        rows = [
            [(seed, metric) for metric in repository.metrics(session, job_id, epoch, MAX_EPOCHS_AT_ONCE)]
            for (seed, job_id), epoch in zip(members, after, strict=False)
        ]
    return Look(shown, rows)


async def stream(waiting: Waiting, database: Database, job: Job, seen: Position) -> AsyncIterator[bytes]:
    """Streams until the job ends or the database goes away; the listener then reconnects with its last event id."""
    before: JobOut | None = None
    idle = 0.0
    yield format_sse_event(retry=RETRY_MILLISECONDS, comment="events of a training job")
    while not seen.ended:
        try:
            found = await waiting.run(job.tenant, partial(look, database, job, seen))
        except AWAY_ERRORS:
            return
        events = news(found, seen, before)
        before = found.job
        for event in events:
            yield event
        idle = 0.0 if events else idle + POLL_SECONDS
        if idle >= KEEPALIVE_SECONDS:
            idle = 0.0
            yield KEEPALIVE_COMMENT
        if not seen.ended:
            await asyncio.sleep(POLL_SECONDS)


def news(found: Look, seen: Position, before: JobOut | None) -> list[bytes]:
    """Returns the events since `seen` and since the earlier state `before`; advances `seen`.

    Epochs come before the status, which may end the stream.
    """
    events = []
    seen.epochs = seen.epochs + [0] * (len(found.epochs) - len(seen.epochs))
    more = False
    for index, rows in enumerate(found.epochs):
        more = more or len(rows) == MAX_EPOCHS_AT_ONCE
        for seed, row in rows:
            seen.epochs[index] = row.epoch
            epoch = EpochOut.model_validate({**vars(row), "metrics": row.values})
            events.append(_event("epoch", {**epoch.model_dump(mode="json"), "seed": seed}, seen))
    job = found.job
    if job.progress and (before is None or job.progress != before.progress):
        events.append(_event("progress", job.progress, seen))
    waits = job.waiting_for != (before.waiting_for if before else None)
    if ((job.status, job.attempt) != (seen.status, seen.attempt) or waits) and not more:
        seen.status, seen.attempt = job.status, job.attempt
        events.append(_event("status", job.model_dump(mode="json"), seen))
    return events


def _event(name: str, data: dict[str, Any], seen: Position) -> bytes:
    return format_sse_event(event=name, data_str=json.dumps(data, ensure_ascii=False), id=str(seen))
