"""The format of a query worker's replies. Answers stay JSON bytes, so that the API need not parse them.

A message is one line of JSON, `{"batch_id", "replies": [{"bytes"} | {"problem"}]}`, followed by the answers' bytes.
"""

import json
from collections.abc import Sequence
from typing import Any

Problem = dict[str, Any]
Reply = bytes | Problem  # the JSON of an answer without its outer braces, or a problem


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
