"""Values that nobody expects: numbers at and beyond every edge, texts hard to write, things of another type."""

import random
from typing import Any

NUMBERS: list[Any] = [0, -1, 1, 2, 255, 256, 1000, 1001, 10_000, 2**31 - 1, 2**31, 2**53, 2**63, 2**64, 10**30]
NUMBERS += [-(2**63), 0.5, -0.0, 1e-300, 1e300, -1e300, True, False]
TEXTS = [
    "",
    " ",
    "a" * 512,
    "a" * 513,
    "é",
    "e\u0301",  # the same letter in two characters
    "\u202eabc",
    "\ufeff",
    "\u200b",
    "\U0001f9d1\u200d\U0001f52c",
    "İ",
    "ß",
    "\x7f",
    "\x00",
    "\ud800",
    "a\tb\nc",
    "'; DROP TABLE models; --",
    "../../etc/passwd",
    "%00",
    "name@1",
    "name@champion",
    "X",
    "?x",
    "p(X,Y) :- q(X,Y)",
    "NaN",
    "null",
    "𝒫",
    "\uffff",
    "ctp:probe",
]


def odd_number(dice: random.Random) -> Any:
    return dice.choice(NUMBERS)


def odd_text(dice: random.Random) -> str:
    if dice.random() < 0.2:
        return "".join(
            chr(dice.choice([dice.randrange(1, 128), dice.randrange(0x110000)])) for _ in range(dice.randrange(9))
        )
    return dice.choice(TEXTS)


def odd_value(dice: random.Random) -> Any:
    kind = dice.randrange(6)
    if kind == 0:
        return None
    if kind == 1:
        return [odd_number(dice) for _ in range(dice.randrange(4))]
    if kind == 2:
        return {odd_text(dice): odd_number(dice)}
    return odd_text(dice) if kind < 5 else odd_number(dice)
