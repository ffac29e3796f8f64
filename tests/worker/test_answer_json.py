"""What the worker writes by hand is the JSON that a library would write."""

import json
import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from ctp_core.base.model import Answer, Answers, Model
from ctp_core.errors import ArtifactError
from ctp_core.evidence.config import ProofsConfig
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.proofs import Proof, ProofNode, Unification
from ctp_core.registry import create_trainer
from ctp_core.rules import Body, Rule, Step
from ctp_core.symbols import Fact
from service.settings import MIB
from worker.answer_json import CUT, answers_json

NASTY = ('"quoted"', "back\\slash", "new\nline\t\x00\x1f", "</script>", "\u2028\u202e", "😀 ü", "{}%s")


@cache
def model() -> Model:
    kb = FactsKB.from_facts({"train": [Fact("a", "p", "b"), Fact("b", "q", "a")]})
    return create_trainer(ProofsConfig(templates={"1": 1}, epochs=1), kb, torch.device("cpu")).fit()


def answers_about(name: str) -> tuple[Answer, ...]:
    fact = Fact(name, f"p{name}", f"o{name}")
    rule = Rule(name, Body((Step(name), Step("q"))), 1 / 3)
    met = (Unification(name, "q", 1e-300, approximate=True), Unification("q", name, 1.0))
    leaf = ProofNode(fact, 5e-324, "fact", met[:1], fact=fact)
    body = (leaf._replace(goal=fact._replace(object="beth")), leaf._replace(goal=fact._replace(subject="beth")))
    tree = ProofNode(fact, 0.1 + 0.2, "rule", met, rule=rule, children=body)
    proofs = (Proof(tree, 12345678.9), Proof(leaf))
    parts: dict[str, float | int | None] = {"bias": -1.5, "num_proofs": 3, "embedding": None}
    sure = Answer(fact, 1.0, known=True, proofs=proofs, score_parts=parts, probability=2 / 3)
    return (sure, Answer(fact, 0.0, known=False))


def places(fact: Fact) -> dict[str, str]:
    return {"subject": fact.subject, "predicate": fact.predicate, "object": fact.object}


def plain(node: ProofNode) -> dict[str, Any]:
    rule = node.rule
    return {
        "goal": places(node.goal),
        "score": node.score,
        "by": node.by,
        "rule": None if rule is None else {"id": rule.id, "text": rule.text, "confidence": rule.confidence},
        "bindings": None if rule is None else {"X": node.goal.subject, "Y": node.goal.object, "Z": "beth"},
        "fact": None if node.fact is None else places(node.fact),
        "unifications": [
            {"left": u.left, "right": u.right, "score": u.score, "approximate": u.approximate}
            for u in node.unifications
        ],
        "children": [plain(child) for child in node.children],
    }


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize("truncated", [True, False])
def test_it_is_what_json_dumps_would_say(name: str, truncated: bool) -> None:
    answers = answers_about(name)
    written = answers_json(model(), Answers(answers, truncated, (name,) if truncated else ()), MIB)
    expected = {
        "explainable": True,
        "scoring": "evidence",
        "semiring": None,
        "truncated": truncated,
        "warnings": [name] if truncated else [],
        "answers": [
            {
                **places(answer.fact),
                "score": answer.score,
                "probability": answer.probability,
                "rank": rank,
                "known": answer.known,
                "score_parts": answer.score_parts,
                "proofs": [
                    {"score": proof.score, "share": proof.share, "text": proof.text, "tree": plain(proof.tree)}
                    for proof in answer.proofs
                ],
            }
            for rank, answer in enumerate(answers, 1)
        ],
    }
    assert f"{{{written.decode()}}}" == json.dumps(expected, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("place", ["score", "probability"])
def test_a_number_that_json_cannot_hold_is_an_error(place: str, number: float) -> None:
    answer = replace(Answer(Fact("a", "p", "b"), 0.5, known=False), **{place: number})
    with pytest.raises(ArtifactError, match="not a number: train or export it again"):
        answers_json(model(), Answers((answer,), truncated=False), MIB)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_part_of_a_score_that_json_cannot_hold_is_null(number: float) -> None:
    answer = Answer(Fact("a", "p", "b"), 0.5, known=False, score_parts={"bias": number, "proofs": 1.5})
    written = answers_json(model(), Answers((answer,)), MIB)
    assert json.loads(b"{%b}" % written)["answers"][0]["score_parts"] == {"bias": None, "proofs": 1.5}


@pytest.mark.slow
def test_answers_are_cut_where_they_would_take_too_many_bytes() -> None:
    """At every number of bytes, there is a beginning of all answers and of the proofs of the last one."""
    answers = Answers(answers_about("ü") * 2)
    everything = answers_json(model(), answers, MIB)
    whole = json.loads(b"{%b}" % everything)["answers"]
    seen = set()
    for max_bytes in range(-1, len(everything)):
        written = answers_json(model(), answers, max_bytes)
        found = json.loads(b"{%b}" % written)
        listed = found["answers"]
        assert len(written.partition(b'"answers":')[2]) <= max(0, max_bytes) + len("[]")
        seen.add(tuple(len(answer["proofs"]) for answer in listed))
        for answer, complete in zip(listed, whole[: len(listed)], strict=True):
            assert answer | {"proofs": []} == complete | {"proofs": []}
            assert answer["proofs"] == complete["proofs"][: len(answer["proofs"])]
        assert (listed == whole) is (not found["truncated"]) is (CUT not in found["warnings"])
    assert seen == {(), (0,), (1,), (2,), (2, 0), (2, 0, 0), (2, 0, 1), (2, 0, 2), (2, 0, 2, 0)}
