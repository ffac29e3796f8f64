"""What was recorded of a model, compared with what it says now."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

TOLERANCE = 1e-5
Json = dict[str, Any]
Ask = Callable[[Json], Json]  # body of `POST /query` without the model -> its answer


def check_answers(recorded: Json, ask: Ask) -> None:
    """The best answers have their scores; which of equal ones comes first is not promised."""
    found = ask(recorded["question"])["answers"]
    scores = {(answer["subject"], answer["predicate"], answer["object"]): answer for answer in found}
    assert len(found) == recorded["number"]
    for fact, score, known in recorded["best"]:
        assert scores[tuple(fact)]["score"] == pytest.approx(score, abs=TOLERANCE), fact
        assert scores[tuple(fact)]["known"] == known, fact
    assert [answer["score"] for answer in found[: len(recorded["best"])]] == pytest.approx(
        [score for _, score, _ in recorded["best"]], abs=TOLERANCE
    )


def check_proofs(recorded: Json, ask: Ask) -> None:
    """The best proof of the best answer is as good as it was."""
    (best,) = ask({**recorded["question"], "top_k": 1, "proofs": 1})["answers"]
    assert [proof["score"] for proof in best["proofs"]] == pytest.approx(recorded["proofs"], abs=TOLERANCE)


def check_rules(recorded: Sequence[Json], found: Sequence[Json], kind: str) -> None:
    """The same head predicate and body predicates: ids and names of variables may change.

    Of graphs also the same confidence. Since version 0.2.0 that of facts is estimated from counts, more rules of facts
    are listed, and of those with constants only the ones that tell something new.
    """
    general = [rule for rule in recorded if "'" not in rule["text"]]
    assert {_predicates(rule) for rule in general} <= {_predicates(rule) for rule in found}
    if kind == "graphs":
        assert _missing(recorded, found) == []
        assert _missing(found, recorded) == []


def _missing(wanted: Sequence[Json], rules: Sequence[Json]) -> list[Json]:
    """Those of `wanted` that no rule is like."""
    confidences: dict[tuple[str, ...], list[float]] = {}
    for rule in rules:
        confidences.setdefault(_predicates(rule), []).append(rule["confidence"])

    def is_there(rule: Json) -> bool:
        near = confidences.get(_predicates(rule), ())
        return any(abs(confidence - rule["confidence"]) <= TOLERANCE for confidence in near)

    return [rule for rule in wanted if not is_there(rule)]


def _predicates(rule: Json) -> tuple[str, ...]:
    """The predicate of the head, then those of the body, whose atoms may be written in another order."""
    return (rule["head"], *sorted(rule["body"]))


def plain_rules(rules: Sequence[Json]) -> list[Json]:
    """Rules of `GET /models/{id}/rules` in the form in which they were recorded."""
    return [
        {
            "head": rule["head"]["predicate"],
            "body": [atom["predicate"] for atom in rule["body"]],
            "confidence": rule["confidence"],
        }
        for rule in rules
    ]
