"""Holds the rules of an archive until they are stored."""

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ctp_core.rules import Rule
from service.training.outcomes import rule_values

LINE = b"\n"  # JSON escapes those of a text


@dataclass(frozen=True)
class HeldRules:
    """What is to be stored of rules, as lines of JSON, hundreds of rules to a piece; iterates over the rules.

    A hundred thousand rules are millions of objects, and Python's garbage collector stops everything for a second to
    look at so many. Even one small object for each would leave the process larger for ever: Python's allocator keeps
    what it has for small ones as long as any of them lives nearby, and gives large ones back.
    """

    pieces: list[bytes]
    num_read: int
    dropped: set[int]  # numbers of rules for which a more confident equal one came later

    def __len__(self) -> int:
        return self.num_read - len(self.dropped)

    def __iter__(self) -> Iterator[bytes]:
        lines = (line for piece in self.pieces for line in piece.split(LINE))
        return (line for number, line in enumerate(lines) if number not in self.dropped)


def held(pieces: Iterable[Sequence[Rule]]) -> HeldRules:
    """Holds each rule once: of equal rules the most confident, and the first of equally confident ones."""
    kept: list[bytes] = []
    numbers: dict[int, int] = {}  # of the best rule so far, by id
    confidences, dropped = array("d"), set[int]()
    for piece in pieces:
        lines = []
        for rule in piece:
            before = numbers.get(int(rule.id, 16))
            if before is not None and rule.confidence <= confidences[before]:
                continue
            if before is not None:
                dropped.add(before)
            numbers[int(rule.id, 16)] = len(confidences)
            confidences.append(rule.confidence)
            lines.append(json.dumps(rule_values([rule])[0]).encode())
        if lines:
            kept.append(LINE.join(lines))
    return HeldRules(kept, len(confidences), dropped)
