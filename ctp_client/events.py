"""Server-Sent Events: read line by line, and taken up again where a connection broke."""

import json
import time
from collections.abc import Iterable, Iterator

from ctp_client.errors import ApiError, Unreachable
from ctp_client.transport import Transport
from ctp_client.types import FINISHED, Event

MAX_RETRIES = 10
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 5.0
ENDED, TOO_MANY, UNAVAILABLE = 204, 429, 503


def parse(lines: Iterable[str]) -> Iterator[Event]:
    """Events from the lines of a stream; comments and messages without data are heartbeats."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            if "data" in fields:
                yield Event(
                    id=fields.get("id", ""), event=fields.get("event", "message"), data=json.loads(fields["data"])
                )
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and "data" in fields else value


def follow(transport: Transport, path: str, last_event_id: str | None = None) -> Iterator[Event]:
    """All events until the job has ended; a broken connection is taken up after the last event that came."""
    retries = 0
    while True:
        try:
            headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
            with transport.stream(path, headers=headers) as response:
                if response.status_code == ENDED:
                    return
                for event in parse(response.iter_lines()):
                    last_event_id, retries = event.id or last_event_id, 0
                    yield event
                    if event.data.get("status") in FINISHED:
                        return
        except (Unreachable, ApiError) as error:
            if isinstance(error, ApiError) and error.status not in (TOO_MANY, UNAVAILABLE):
                raise
            if retries == MAX_RETRIES:
                raise
        time.sleep(min(FIRST_PAUSE_SECONDS * 2**retries, LONGEST_PAUSE_SECONDS))
        retries = min(retries + 1, MAX_RETRIES)
