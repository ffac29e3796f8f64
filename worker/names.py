"""The words between a worker and its child processes, and the name of a worker."""

import json
import os
import socket
from collections import Counter
from dataclasses import dataclass

from service.errors import problem
from service.queries.wire import Problem, Reply, pack, unpack
from worker.shares import Key

STOP = "stop"  # order to the child: give the job back and end
DONE = "done"  # reply of the child after each job
BEAT = "beat"  # sent by the child now and then while it works
CLINGS = "clings"  # sent instead of a beat while it works on a job that is not its own any more
BEATS_PER_LEASE, MOST_BEAT_SECONDS = 10, 1.0
# Time for what reads files that may be large, from a disk that may be slow: torch, or a model.
LOAD_SECONDS = 120.0


def unavailable(code: str, detail: str) -> Problem:
    return problem(503, "Unavailable", code, detail, {})


OUT_OF_MEMORY = unavailable(
    "out_of_memory",
    "the query needs more memory than its process may take (CTP_QUERY_MEMORY_BYTES): ask for less at once, or bring "
    "fewer facts",
)


@dataclass(frozen=True)
class Answered:
    """The last word of a child about a batch. Before, it says with numbers how many seconds it may be silent."""

    replies: list[Reply]
    counts: Counter[str]
    models: frozenset[Key]  # now in its memory


def encode_word(word: float | Answered) -> bytes:
    """JSON, and after a line of it the replies as they are sent to the API."""
    if not isinstance(word, Answered):
        return json.dumps(word).encode()
    head = json.dumps({"counts": word.counts, "models": sorted(word.models, key=str)})
    return head.encode() + b"\n" + pack("", word.replies)


def decode_word(message: bytes) -> float | Answered:
    line, answered, replies = message.partition(b"\n")
    head = json.loads(line)
    if not answered:
        return float(head)
    return Answered(unpack(replies)[1], Counter(head["counts"]), frozenset((file, kb) for file, kb in head["models"]))


def worker_name(process: int | None = None) -> str:
    """Returns the name under which a job is held: the machine and the process that trains."""
    return f"{socket.gethostname()}:{process or os.getpid()}"
