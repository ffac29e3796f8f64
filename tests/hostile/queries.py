"""Questions that nobody asks: every place, own facts of every shape, and bodies that are hardly JSON."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.hostile.values import odd_number, odd_text, odd_value

RAW = ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 5000, "0x10", "1_0", '"\\ud800"', "[[[[]]]]", "{}"]


@dataclass(frozen=True)
class Names:
    """What a model knows."""

    model: str
    entities: Sequence[str]
    predicates: Sequence[str]

    def entity(self, dice: random.Random) -> str:
        return odd_text(dice) if dice.random() < 0.05 else dice.choice(self.entities)

    def predicate(self, dice: random.Random) -> str:
        return odd_text(dice) if dice.random() < 0.03 else dice.choice(self.predicates)


def hostile_query(dice: random.Random, names: Names) -> bytes:
    body: dict[str, Any] = {"model": names.model, "goal": goal(dice, names), "facts": facts(dice, names)}
    if dice.random() < 0.2:
        body["goals"] = [goal(dice, names) for _ in range(dice.choice([1, 2, 20]))]
        del body["goal"]
    for key in ("top_k", "proofs", "depth"):
        if dice.random() < 0.4:
            body[key] = dice.choice([1, 2, 5, 20, 100]) if dice.random() < 0.85 else odd_number(dice)
    if dice.random() < 0.2:
        body["exclude_known"] = True
    if dice.random() < 0.1:
        body[dice.choice(["kb", "top_k", "proofs", "depth", "facts", "goal", "model", "x"])] = odd_value(dice)
    text = json.dumps(body)
    if dice.random() < 0.05:
        text = text.replace(dice.choice(['"facts": [', '"goal": {', '"goals": [']), dice.choice(RAW), 1)
    if dice.random() < 0.05:
        text = text[: dice.randrange(len(text))]
    if dice.random() < 0.05:
        text = text[:-1] + f', "{dice.choice(["top_k", "proofs", "depth"])}": {dice.choice(RAW)}}}'
    return text.encode("utf-8", "surrogatepass")


def goal(dice: random.Random, names: Names) -> dict[str, str | None]:
    whole = {"subject": names.entity(dice), "predicate": names.predicate(dice), "object": names.entity(dice)}
    open_places = dice.choice([0, 0, 1, 1, 1, 1, 1, 1, 1, 2])
    return {**whole, **dict.fromkeys(dice.sample(list(whole), open_places))}


def facts(dice: random.Random, names: Names) -> list[list[str]]:
    """None, some at random, a path, a hub, a ring, everything with everything, the same one many times."""
    size = dice.choice([1, 2, 10, 40])
    nodes = [names.entity(dice) for _ in range(3)] + [f"n{number}" for number in range(size)]
    predicate = names.predicate(dice)
    shapes = {
        "none": [],
        "random": [[dice.choice(nodes), names.predicate(dice), dice.choice(nodes)] for _ in range(size)],
        "path": [[a, predicate, b] for a, b in pairwise(nodes)],
        "hub": [[node, predicate, nodes[0]] for node in nodes[1:]],
        "spokes": [[nodes[0], predicate, node] for node in nodes[1:]],
        "ring": [[a, predicate, b] for a, b in zip(nodes, [*nodes[1:], nodes[0]], strict=True)],
        "all": [[a, predicate, b] for a in nodes[:15] for b in nodes[:15]],
        "one": [[nodes[0], predicate, nodes[0]]] * size,
        "ladder": [[a, p, b] for a, b in pairwise(nodes) for p in names.predicates[:6]],
    }
    return shapes[dice.choice(list(shapes))]
