"""Answers as JSON, in one pass: what is written here is what the caller of `POST /query` receives."""

import json
from typing import Any

from ctp_core.models.base import Answer, Answers, Model
from ctp_core.proofs import Proof, ProofNode

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False).encode


def answers_json(model: Model, answers: Answers) -> bytes:
    """The inside of the answer's object, without its braces."""
    body = {
        "explainable": model.explainable,
        "semiring": model.semiring,
        "truncated": answers.truncated,
        "answers": [_answer(answer, rank) for rank, answer in enumerate(answers.items, 1)],
    }
    return _encode(body)[1:-1].encode()


def _answer(answer: Answer, rank: int) -> dict[str, Any]:
    fact = answer.fact
    return {
        "subject": fact.subject,
        "predicate": fact.predicate,
        "object": fact.object,
        "score": answer.score,
        "rank": rank,
        "known": answer.known,
        "score_parts": answer.score_parts,
        "proofs": [_proof(proof) for proof in answer.proofs],
    }


def _proof(proof: Proof) -> dict[str, Any]:
    return {"score": proof.score, "share": proof.share, "text": proof.text, "tree": _node(proof.tree)}


def _node(node: ProofNode) -> dict[str, Any]:
    rule, fact, goal = node.rule, node.fact, node.goal
    return {
        "goal": {"subject": goal.subject, "predicate": goal.predicate, "object": goal.object},
        "score": node.score,
        "by": node.by,
        "rule": None if rule is None else {"id": rule.id, "text": rule.text, "confidence": rule.confidence},
        "fact": None if fact is None else {"subject": fact.subject, "predicate": fact.predicate, "object": fact.object},
        "unifications": [
            {"left": u.left, "right": u.right, "score": u.score, "approximate": u.approximate}
            for u in node.unifications
        ],
        "children": [_node(child) for child in node.children],
    }
