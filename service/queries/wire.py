"""What the API and the query workers send each other in a form of their own.

Replies: answers stay JSON bytes, so that the API need not parse them. A message is one line of JSON,
`{"batch_id", "replies": [{"bytes"} | {"problem"}]}`, followed by the answers' bytes.

Large lists of facts: they lie beside the queue under a key that the message names, and stay JSON bytes up to the
process that answers, so that no message of one tenant keeps the messages of others waiting.
"""

import json
import time
from collections.abc import Sequence
from typing import Any

LARGE_FACTS = 1000  # with more than these, facts do not travel in the message
AT_ONCE = 100  # facts that are encoded in about a millisecond, however long their names are
Facts = Sequence[Sequence[str]]
Problem = dict[str, Any]
Reply = bytes | Problem  # the JSON of an answer without its outer braces, or a problem


def pack(batch_id: str, replies: Sequence[Reply]) -> bytes:
    head = [{"bytes": len(reply)} if isinstance(reply, bytes) else {"problem": reply} for reply in replies]
    bodies = [reply for reply in replies if isinstance(reply, bytes)]
    return b"".join([json.dumps({"batch_id": batch_id, "replies": head}).encode(), b"\n", *bodies])


def waits_key(batch_id: str) -> str:
    """Exists as long as somebody waits for the batch: no two clocks need agree on when that ends."""
    return f"ctp:waits:{batch_id}"


def facts_key(batch_id: str) -> str:
    return f"ctp:facts:{batch_id}"


def encode_facts(lists: Sequence[Facts]) -> bytes:
    """Returns the lists of facts as JSON; lets other threads go on meanwhile."""
    pieces: list[bytes] = []
    for facts in lists:
        pieces += [b",[" if pieces else b"[", *_encoded(facts), b"]"]
    # Joined once: each copy of ten megabytes holds up all threads for as many milliseconds.
    return b"".join([b"[", *pieces, b"]"])


def _encoded(facts: Facts) -> list[bytes]:
    pieces = []
    for first in range(0, len(facts), AT_ONCE):
        comma = b"," if first else b""
        pieces.append(comma + json.dumps(facts[first : first + AT_ONCE])[1:-1].encode())
        time.sleep(0)  # hands the global lock over to whoever waits for it
    return pieces


def unpack(message: bytes) -> tuple[str, list[Reply]]:
    line, _, bodies = message.partition(b"\n")
    head = json.loads(line)
    replies: list[Reply] = []
    start = 0
    for reply in head["replies"]:
        if "problem" in reply:
            replies.append(reply["problem"])
            continue
        replies.append(bodies[start : start + reply["bytes"]])
        start += reply["bytes"]
    return head["batch_id"], replies
