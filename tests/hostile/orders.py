"""Orders of work that nobody gives: evaluations, predictions, trainings and uploads with odd values in all places."""

import json
import random
from typing import Any

from tests.hostile.queries import RAW
from tests.hostile.values import odd_number, odd_text, odd_value

SETTINGS = ("rank", "epochs", "negatives", "steps", "dim", "batch_size", "templates", "search", "budget_seconds")
METHODS = ("ctp", "proofs", "rules", "hybrid", "complex", "distmult", "minerva", "neural-lp", "lstm", "gat")
KEYS = ("model", "split", "kb", "limit", "holdout", "config", "seeds", "preset", "priority", "tags", "facts", "x")


def hostile_order(dice: random.Random, model: str) -> tuple[str, bytes]:
    """Returns the path and the body of a call that creates something, or is refused."""
    path, body = dice.choice([evaluation, prediction, training, upload])(dice, model)
    if dice.random() < 0.3:
        body[dice.choice(KEYS)] = odd_value(dice)
    text = json.dumps(body)
    if dice.random() < 0.05:
        text = text[: dice.randrange(len(text))] + dice.choice(["", *RAW])
    return path, text.encode("utf-8", "surrogatepass")


def evaluation(dice: random.Random, model: str) -> tuple[str, dict[str, Any]]:
    kb = dice.choice([None, None, "family", "umls", odd_text(dice)])
    split = dice.choice(["test", "valid", "train", odd_text(dice)])
    limit = dice.choice([None, 1, 3, odd_number(dice)])
    return "/evaluations", {
        "model": dice.choice([model, model, odd_text(dice)]),
        "split": split,
        "kb": kb,
        "limit": limit,
    }


def prediction(dice: random.Random, model: str) -> tuple[str, dict[str, Any]]:
    names = [None, None, ["rick"], ["rick", "morty"], [], [odd_text(dice)], odd_value(dice)]
    return "/predictions", {
        "model": dice.choice([model, model, odd_text(dice)]),
        "predicate": dice.choice(["grandparent", "grandparent", odd_text(dice)]),
        "subjects": dice.choice(names),
        "objects": dice.choice(names),
        "min_score": dice.choice([0, 0.5, 1, odd_number(dice)]),
        "top_k_per_question": dice.choice([1, 3, odd_number(dice)]),
        "proofs": dice.choice([0, 1, odd_number(dice)]),
        "format": dice.choice(["csv", "jsonl", "parquet", odd_text(dice)]),
    }


def training(dice: random.Random, _: str) -> tuple[str, dict[str, Any]]:
    config = {"method": dice.choice([*METHODS, odd_text(dice)])}
    config |= {
        dice.choice(SETTINGS): dice.choice([odd_number(dice), odd_value(dice)]) for _ in range(dice.randrange(3))
    }
    body = {"kb": dice.choice(["family", "umls", "nations"]), "name": "hostile", "config": config}
    return "/train", body | ({"holdout": holdout(dice)} if dice.random() < 0.5 else {})


def upload(dice: random.Random, _: str) -> tuple[str, dict[str, Any]]:
    names = ["a", "b", "c", odd_text(dice), odd_text(dice)]
    facts = [[dice.choice(names), dice.choice(["p", "q"]), dice.choice(names)] for _ in range(dice.randrange(9))]
    return "/kbs", {"name": "hostile", "facts": facts, "holdout": holdout(dice)}


def holdout(dice: random.Random) -> Any:
    shares = [0.0, 1e-300, 0.05, 0.5, 0.5000001, odd_number(dice), odd_value(dice)]
    return {split: dice.choice(shares) for split in ("valid", "test", "train") if dice.random() < 0.6}
