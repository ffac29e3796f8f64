"""Writes answers as JSON in one pass: the caller of `POST /query` receives exactly what is written here.

The JSON is written by hand because an answer with proofs has hundreds of small objects: making dictionaries of them
first took longer than finding the proofs.
"""

import json
from collections.abc import Mapping
from json.encoder import encode_basestring as _text
from math import isfinite

from ctp_core.base.model import Answer, Answers, Model
from ctp_core.errors import ArtifactError
from ctp_core.proofs import Proof, ProofNode, Unification
from ctp_core.rules import Rule
from ctp_core.symbols import Fact

CUT = (
    "the answers are cut at the bytes that a query, or several at the same time, may have (CTP_MAX_ANSWER_BYTES): ask "
    "for fewer goals, answers or proofs at once"
)
END = b"]}"
encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def answers_json(model: Model, answers: Answers, max_bytes: int) -> bytes:
    """Returns the JSON of the answers without its outer braces, with as many answers and proofs as fit.

    Where not all do, it is `truncated` and says so. Raises ArtifactError for a score that is not finite.
    """
    listed: list[bytes] = []
    left, whole = max_bytes, True
    for rank, answer in enumerate(answers.items, 1):
        written, whole = one_answer_json(answer, rank, left)
        listed.append(written)
        left -= len(written) + 1
        if not whole:
            break
    head = {
        "explainable": model.explainable,
        "scoring": model.scoring,
        "semiring": model.semiring,
        "truncated": answers.truncated or not whole,
        "warnings": answers.warnings if whole else (*answers.warnings, CUT),
    }
    return b'%b,"answers":[%b]' % (encode(head)[1:-1].encode(), b",".join(filter(None, listed)))


def one_answer_json(answer: Answer, rank: int, max_bytes: int) -> tuple[bytes, bool]:
    """Returns as much of an answer as fits, cut between proofs, and whether that is all of it."""
    head = (
        f'{{{places(answer.fact)},"score":{number(answer.score)},"probability":{_number_or_null(answer.probability)},'
        f'"rank":{rank},"known":{encode(answer.known)},"score_parts":{_parts(answer.score_parts)},"proofs":['
    ).encode()
    left = max_bytes - len(head) - len(END)
    if left < 0:
        return b"", False
    proofs: list[bytes] = []
    for proof in answer.proofs:
        written = proof_json(proof).encode()
        left -= len(written) + 1
        if left < 0:
            break
        proofs.append(written)
    return b"%b%b%b" % (head, b",".join(proofs), END), len(proofs) == len(answer.proofs)


def _parts(parts: Mapping[str, float | int | None] | None) -> str:
    """Writes a part that is not finite as null: the score, to which it is added, may be."""
    if parts is None:
        return "null"
    return encode({name: part if part is not None and isfinite(part) else None for name, part in parts.items()})


def proof_json(proof: Proof) -> str:
    share = _number_or_null(proof.share)
    return f'{{"score":{number(proof.score)},"share":{share},"text":{_text(proof.text)},"tree":{_node(proof.tree)}}}'


def _node(node: ProofNode) -> str:
    rule = "null" if node.rule is None else rule_json(node.rule)
    bound = node.bindings
    bindings = "null" if bound is None else encode(bound)
    fact = "null" if node.fact is None else f"{{{places(node.fact)}}}"
    return (
        f'{{"goal":{{{places(node.goal)}}},"score":{number(node.score)},"by":"{node.by}","rule":{rule},'
        f'"bindings":{bindings},"fact":{fact},'
        f'"unifications":[{",".join([_unification(one) for one in node.unifications])}],'
        f'"children":[{",".join([_node(child) for child in node.children])}]}}'
    )


def places(fact: Fact) -> str:
    return f'"subject":{_text(fact.subject)},"predicate":{_text(fact.predicate)},"object":{_text(fact.object)}'


def rule_json(rule: Rule) -> str:
    return f'{{"id":"{rule.id}","text":{_text(rule.text)},"confidence":{number(rule.confidence)}}}'


def _unification(one: Unification) -> str:
    approximate = "true" if one.approximate else "false"
    left, right = _text(one.left), _text(one.right)
    return f'{{"left":{left},"right":{right},"score":{number(one.score)},"approximate":{approximate}}}'


def _number_or_null(value: float | None) -> str:
    return "null" if value is None else number(value)


def number(value: float) -> str:
    if not isfinite(value):
        raise ArtifactError(f"the model computes the score {value}, which is not a number: train or export it again")
    return repr(float(value))
