"""Tells the life of a job as Server-Sent Events, from the database alone: any API process can resume a stream.

`epoch`     epoch, loss, metrics, created_at, seed: once for each finished epoch
`progress`  phase, text, done, eta_seconds, elapsed_seconds, epoch, epochs, step, steps, loss, metrics and, if settings
            are searched, trials: the current state, when it has changed
`status`    the job, when its status, attempt or `waiting_for` has changed; a final status ends the stream
The id of an event is `status.attempt.epochs`, the last epoch of each seed joined by `-`: everything sent so far.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fastapi.sse import format_sse_event
from sqlalchemy.orm import Session

from service.db.tables import Metric
from service.errors import Invalid
from service.models.schemas import EpochOut
from service.training import repository, service
from service.training.schemas import JobOut

MAX_EPOCHS_AT_ONCE = 1000
_POSITION = re.compile(r"([a-z]{1,16})\.(\d{1,9})\.(\d{1,9}(?:-\d{1,9}){0,99})")


@dataclass(frozen=True)
class Position:
    """The position of a listener in the stream."""

    status: str = ""
    attempt: int = -1
    epochs: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str | None) -> "Position":
        """Parses `Last-Event-ID`; raises Invalid if this service did not make it."""
        if not text:
            return cls()
        match = _POSITION.fullmatch(text)
        if match is None:
            raise Invalid("bad_event_id", "the Last-Event-ID is not valid: start again without one")
        return cls(match[1], int(match[2]), tuple(int(epoch) for epoch in match[3].split("-")))

    @property
    def ended(self) -> bool:
        return self.status in repository.TERMINAL

    def after(self, member: int, epoch: int) -> "Position":
        """Returns the position after an epoch of one seed."""
        return replace(self, epochs=(*self.epochs[:member], epoch, *self.epochs[member + 1 :]))

    def __str__(self) -> str:
        return f"{self.status or 'none'}.{max(self.attempt, 0)}.{'-'.join(map(str, self.epochs or [0]))}"


class Epoch(NamedTuple):
    """A finished epoch and what its event says, as JSON."""

    number: int
    data: str


@dataclass(frozen=True)
class Look:
    """The state of a job at one moment, with the epochs since the look before."""

    job: JobOut
    members: tuple[tuple[int | None, str], ...]  # seed and job of each training
    since: tuple[int, ...]  # last epoch of each at the look before
    until: tuple[int, ...]  # last epoch of each now
    epochs: tuple[tuple[Epoch, ...], ...]  # between the two


@dataclass(frozen=True)
class Heard:
    """Events in the form in which they are sent, the position after them, and the state that they tell."""

    position: Position
    job: JobOut | None = None
    events: bytes = b""


def look(session: Session, tenant: str, job_id: str, before: Look | None) -> Look:
    """Looks at a job; the first look tells its last epochs only. Raises NotFound."""
    job = service.shown(session, [service.get(session, tenant, job_id)])[0]
    members = tuple((child.seed, child.id) for child in job.children) or ((job.seed, job.id),)
    if before is None:
        since = tuple(repository.last_epoch(session, member) for _, member in members)
        return Look(job, members, since, since, ((),) * len(members))
    epochs = tuple(
        tuple(_epochs(repository.metrics(session, member, after, MAX_EPOCHS_AT_ONCE), seed))
        for (seed, member), after in zip(members, before.until, strict=True)
    )
    if any(len(new) == MAX_EPOCHS_AT_ONCE for new in epochs):
        return look(session, tenant, job_id, None)  # there may be more: each listener reads those it has missed
    until = tuple(new[-1].number if new else last for new, last in zip(epochs, before.until, strict=True))
    return Look(job, members, before.until, until, epochs)


def missed(session: Session, found: Look, position: Position) -> list[Sequence[Epoch]]:
    """Returns the epochs of each training that a listener has not heard of: the next thousand if they are many."""
    return [
        [epoch for epoch in found.epochs[place] if epoch.number > after]
        if after >= found.since[place]
        else [
            epoch
            for epoch in _epochs(repository.metrics(session, member, after, MAX_EPOCHS_AT_ONCE), seed)
            if epoch.number <= found.until[place]
        ]
        for place, ((seed, member), after) in enumerate(zip(found.members, position.epochs, strict=False))
    ]


def _epochs(rows: Sequence[Metric], seed: int | None) -> list[Epoch]:
    def data(row: Metric) -> str:
        epoch = EpochOut.model_validate({**vars(row), "metrics": row.values})
        return json.dumps({**epoch.model_dump(mode="json"), "seed": seed}, ensure_ascii=False)

    return [Epoch(row.epoch, data(row)) for row in rows]


def news(session: Session, found: Look, heard: Heard) -> Heard:
    """Returns the events between what was heard and what was found.

    Epochs come before the status, which may end the stream.
    """
    position, before, job = heard.position, heard.job, found.job
    position = replace(position, epochs=position.epochs + (0,) * (len(found.members) - len(position.epochs)))
    events = []
    for member, epochs in enumerate(missed(session, found, position)):
        for epoch in epochs:
            position = position.after(member, epoch.number)
            events.append(_event("epoch", epoch.data, position))
    if job.progress and (before is None or job.progress != before.progress):
        events.append(_event("progress", json.dumps(job.progress, ensure_ascii=False), position))
    waits = job.waiting_for != (before.waiting_for if before else None)
    more = any(epoch < last for epoch, last in zip(position.epochs, found.until, strict=False))
    if ((job.status, job.attempt) != (position.status, position.attempt) or waits) and not more:
        position = replace(position, status=job.status, attempt=job.attempt)
        events.append(_event("status", json.dumps(job.model_dump(mode="json"), ensure_ascii=False), position))
    return Heard(position, job, b"".join(events))


def _event(name: str, data: str, position: Position) -> bytes:
    return format_sse_event(event=name, data_str=data, id=str(position))
