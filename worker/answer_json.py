"""Writes answers as JSON in one pass: the caller of `POST /query` receives exactly what is written here.

The JSON is written by hand because an answer with proofs has hundreds of small objects: making dictionaries of them
first took longer than finding the proofs.
"""

import json
from json.encoder import encode_basestring as _text
from math import isfinite

from ctp_core.base.model import Answer, Answers, Model
from ctp_core.errors import ArtifactError
from ctp_core.proofs import Proof, ProofNode, Unification
from ctp_core.rules import Rule
from ctp_core.symbols import Fact

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def answers_json(model: Model, answers: Answers) -> bytes:
    """Returns the JSON of the answers without its outer braces; raises ArtifactError for a score that is not finite."""
    head = {
        "explainable": model.explainable,
        "scoring": model.scoring,
        "semiring": model.semiring,
        "truncated": answers.truncated,
        "warnings": answers.warnings,
    }
    listed = ",".join([_answer(answer, rank) for rank, answer in enumerate(answers.items, 1)])
    return f'{_encode(head)[1:-1]},"answers":[{listed}]'.encode()


def _answer(answer: Answer, rank: int) -> str:
    proofs = ",".join([_proof(proof) for proof in answer.proofs])
    return (
        f'{{{_places(answer.fact)},"score":{_number(answer.score)},"probability":{_number_or_null(answer.probability)},'
        f'"rank":{rank},"known":{_encode(answer.known)},"score_parts":{_encode(answer.score_parts)},"proofs":[{proofs}]}}'
    )


def _proof(proof: Proof) -> str:
    share = _number_or_null(proof.share)
    return f'{{"score":{_number(proof.score)},"share":{share},"text":{_text(proof.text)},"tree":{_node(proof.tree)}}}'


def _node(node: ProofNode) -> str:
    rule = "null" if node.rule is None else _rule(node.rule)
    bound = node.bindings
    bindings = "null" if bound is None else _encode(bound)
    fact = "null" if node.fact is None else f"{{{_places(node.fact)}}}"
    return (
        f'{{"goal":{{{_places(node.goal)}}},"score":{_number(node.score)},"by":"{node.by}","rule":{rule},'
        f'"bindings":{bindings},"fact":{fact},'
        f'"unifications":[{",".join([_unification(one) for one in node.unifications])}],'
        f'"children":[{",".join([_node(child) for child in node.children])}]}}'
    )


def _places(fact: Fact) -> str:
    return f'"subject":{_text(fact.subject)},"predicate":{_text(fact.predicate)},"object":{_text(fact.object)}'


def _rule(rule: Rule) -> str:
    return f'{{"id":"{rule.id}","text":{_text(rule.text)},"confidence":{_number(rule.confidence)}}}'


def _unification(one: Unification) -> str:
    approximate = "true" if one.approximate else "false"
    left, right = _text(one.left), _text(one.right)
    return f'{{"left":{left},"right":{right},"score":{_number(one.score)},"approximate":{approximate}}}'


def _number_or_null(value: float | None) -> str:
    return "null" if value is None else _number(value)


def _number(value: float) -> str:
    if not isfinite(value):
        raise ArtifactError(f"the model computes the score {value}, which is not a number: train or export it again")
    return repr(float(value))
