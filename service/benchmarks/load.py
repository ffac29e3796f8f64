"""Load generator, `python -m service.benchmarks.load`: each client asks again as soon as it has its answer.

Reads a plan as JSON from standard input and writes figures to standard output. The HTTP is written by hand, because a
general client would take more CPU than the service.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Seen:
    """The latencies of good answers, and the number of answers by status."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)


async def client(plan: dict[str, Any], bodies: list[bytes], number: int, left: list[int], seen: Seen) -> None:
    deadline = time.perf_counter() + plan["seconds"]
    reader, writer = await asyncio.open_connection(plan["host"], plan["port"])
    head = f"POST /query HTTP/1.1\r\nHost: {plan['host']}:{plan['port']}\r\nContent-Type: application/json\r\n"
    turn = number
    while left[0] > 0 and time.perf_counter() < deadline:
        left[0] -= 1
        body = bodies[turn % len(bodies)]
        turn += plan["clients"]
        began = time.perf_counter()
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status = await _answer(reader)
        if status == "200":
            seen.seconds.append(time.perf_counter() - began)
        seen.statuses[status] += 1
    writer.close()
    await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader) -> str:
    """Reads an answer and returns its status, marked if it is a 429 or 503 without Retry-After."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = head[9:12]
    length = int(head.split("content-length:", 1)[1].split("\r\n", 1)[0])
    await reader.readexactly(length)
    return status if status not in ("429", "503") or "retry-after:" in head else f"{status} without Retry-After"


async def run(plan: dict[str, Any]) -> dict[str, Any]:
    seen, left = Seen(), [plan["requests"]]
    bodies = [json.dumps(body).encode() for body in plan["bodies"]]
    began = time.perf_counter()
    clients = [client(plan, bodies, number, left, seen) for number in range(plan["clients"])]
    ended = await asyncio.gather(*clients, return_exceptions=True)
    seconds = time.perf_counter() - began
    for error in ended:
        if isinstance(error, BaseException):
            seen.statuses[type(error).__name__] += 1
    ordered = sorted(seen.seconds)
    return {
        "p50_ms": percentile(ordered, 0.50),
        "p99_ms": percentile(ordered, 0.99),
        "qps": round(len(ordered) / seconds, 1),
        "statuses": dict(seen.statuses),
    }


def percentile(ordered: list[float], share: float) -> float | None:
    """Returns the percentile in milliseconds; None without values."""
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 2) if ordered else None


if __name__ == "__main__":
    json.dump(asyncio.run(run(json.load(sys.stdin))), sys.stdout)
