"""The replies of a query worker on their way back: answers stay JSON bytes, so that nobody parses them again.

A message is one line of JSON, `{"batch_id", "replies": [{"bytes"} | {"problem"}]}`, and then the answers' bytes.
"""

import json
from collections.abc import Sequence
from typing import Any

Problem = dict[str, Any]
Reply = bytes | Problem  # the inside of an answer without its braces, or a problem


def pack(batch_id: str, replies: Sequence[Reply]) -> bytes:
    head = [{"bytes": len(reply)} if isinstance(reply, bytes) else {"problem": reply} for reply in replies]
    bodies = [reply for reply in replies if isinstance(reply, bytes)]
    return b"".join([json.dumps({"batch_id": batch_id, "replies": head}).encode(), b"\n", *bodies])


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
