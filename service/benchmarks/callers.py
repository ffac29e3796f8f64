"""Calls of one tenant, `python -m service.benchmarks.callers`: groups of callers, each calling again after a pause.

Reads a plan as JSON from standard input and writes figures of each group to standard output. Each tenant's callers
are a process of their own, so that what one of them sends does not delay what another measures.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from service.benchmarks.load import percentile

REFUSED = ("429", "503")
REFUSED_SECONDS = 0.05  # between a refusal and the next try: a hostile caller does not wait as long as it is told to
PATIENCE_SECONDS = 60.0
HUNG_UP = "hung up"
READ_BYTES = 256 * 1024


@dataclass(frozen=True)
class Call:
    """A call; the body is in a file, since it may have megabytes."""

    method: str
    path: str
    key: str = ""
    file: str | None = None
    media_type: str = "application/json"

    def request(self, host: str, port: int) -> bytes:
        body = Path(self.file).read_bytes() if self.file else b""
        head = [
            f"{self.method} {self.path} HTTP/1.1",
            f"Host: {host}:{port}",
            "Connection: close",
            f"Content-Length: {len(body)}",
            f"Content-Type: {self.media_type}",
            *([f"Authorization: Bearer {self.key}"] if self.key else []),
        ]
        return "\r\n".join([*head, "", ""]).encode() + body


@dataclass(frozen=True)
class Group:
    """Callers that make the same calls in turn, each one after the other.

    Those that are patient wait for their last answer when the time is up; the others hang up.
    """

    name: str
    calls: tuple[Call, ...]
    callers: int = 1
    pause: float = 0.0
    patient: bool = False


@dataclass(frozen=True)
class Plan:
    """What is called, where, and for how long."""

    host: str
    port: int
    seconds: float
    groups: tuple[Group, ...]

    @classmethod
    def parse(cls, text: str) -> "Plan":
        values = json.loads(text)
        groups = (
            Group(**{**group, "calls": tuple(Call(**call) for call in group["calls"])}) for group in values["groups"]
        )
        return cls(**{**values, "groups": tuple(groups)})

    def as_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass
class Seen:
    """The latencies of good answers, and the number of answers by status."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)

    def figures(self) -> dict[str, Any]:
        ordered = sorted(self.seconds)
        shares = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}
        figures = {name: percentile(ordered, share) for name, share in shares.items()}
        return figures | {"num_good": len(ordered), "statuses": dict(self.statuses)}


async def _call(plan: Plan, request: bytes, seen: Seen) -> str:
    """Makes one call and reads its answer to the end; a stream counts as soon as it begins."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(plan.host, plan.port)
    try:
        writer.write(request)
        status = (await reader.readline())[9:12].decode() or "closed"
        seen.statuses[status] += 1
        while await reader.read(READ_BYTES):
            pass
    finally:
        writer.transport.abort()
    if status == "200":
        seen.seconds.append(time.perf_counter() - began)
    return status


async def _caller(plan: Plan, group: Group, requests: list[bytes], number: int, seen: Seen) -> None:
    ends = time.perf_counter() + plan.seconds
    for turn in count(number):
        if time.perf_counter() > ends:
            return
        try:
            status = await _call(plan, requests[turn % len(requests)], seen)
        except OSError as error:
            status = type(error).__name__
            seen.statuses[status] += 1
        await asyncio.sleep(group.pause + (REFUSED_SECONDS if status in REFUSED else 0.0))


async def run(plan: Plan) -> dict[str, Any]:
    """Calls until the time is up; returns the figures of each group."""
    seen = {group.name: Seen() for group in plan.groups}
    await asyncio.gather(*(_group(plan, group, seen[group.name]) for group in plan.groups))
    return {name: one.figures() for name, one in seen.items()}


async def _group(plan: Plan, group: Group, seen: Seen) -> None:
    requests = [call.request(plan.host, plan.port) for call in group.calls]
    callers = [asyncio.ensure_future(_caller(plan, group, requests, number, seen)) for number in range(group.callers)]
    _, late = await asyncio.wait(callers, timeout=plan.seconds + group.patient * PATIENCE_SECONDS)
    for caller in late:
        caller.cancel()
        seen.statuses[HUNG_UP] += 1
    await asyncio.gather(*callers, return_exceptions=True)


if __name__ == "__main__":
    json.dump(asyncio.run(run(Plan.parse(sys.stdin.read()))), sys.stdout)
