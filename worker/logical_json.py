"""Writes the answers to logical questions as JSON, as answer_json.py does for goals."""

from collections.abc import Sequence

from ctp_core.base.model import Model
from ctp_core.logic.answers import LogicalAnswer, LogicalAnswers, ProvedAtom
from ctp_core.logic.explained import FactExplained
from ctp_core.logic.near_misses import NearMiss
from ctp_core.symbols import Fact
from worker.answer_json import CUT, END, encode, number, one_answer_json, places, proof_json, rule_json


def logical_json(model: Model, answers: LogicalAnswers, max_bytes: int) -> bytes:
    """Returns the JSON of the answers without its outer braces, with as many answers as fit.

    Where not all do, it is `truncated` and says so. Raises ArtifactError for a score that is not finite.
    """
    listed: list[bytes] = []
    left = max_bytes
    for rank, answer in enumerate(answers.items, 1):
        written = _answer(answer, rank)
        left -= len(written) + 1
        if left < 0:
            break
        listed.append(written)
    whole = len(listed) == len(answers.items)
    head = {
        "explainable": model.explainable,
        "scoring": model.scoring,
        "semiring": model.semiring,
        "truncated": answers.truncated or not whole,
        "exact": answers.exact,
        "width": answers.width,
        "warnings": answers.warnings if whole else (*answers.warnings, CUT),
        "plan": answers.plan,
    }
    return b'%b,"answers":[%b]' % (encode(head)[1:-1].encode(), b",".join(listed))


def explained_json(model: Model, found: FactExplained, max_bytes: int) -> bytes:
    """Returns the JSON of an explanation without its outer braces; `why` has as many proofs as fit."""
    change = found.change
    told = {"score_then": change.score_then, "smallest": change.smallest, "reason": change.reason}
    changed = f'{{"facts":{_facts(change.facts)},{encode(told)[1:]}'
    why_not = ",".join(map(_near_miss, found.why_not))
    rest = f',"why_not":[{why_not}],"what_would_change_it":{changed}'.encode()
    why, whole = b"null", True
    if found.why.items:
        why, whole = one_answer_json(found.why.items[0], 1, max_bytes - len(rest))
    head = {
        "explainable": model.explainable,
        "scoring": model.scoring,
        "semiring": model.semiring,
        "truncated": found.truncated or not whole,
        "warnings": found.why.warnings if whole else (*found.why.warnings, CUT),
        "threshold": found.threshold,
    }
    return b'%b,"why":%b%b' % (encode(head)[1:-1].encode(), why or b"null", rest)


def _near_miss(miss: NearMiss) -> str:
    stated, missing = _facts(miss.stated), f"{{{places(miss.missing)}}}"
    told = f'"stated":{stated},"missing":{missing},"score_then":{number(miss.score_then)}'
    return f'{{"rule":{rule_json(miss.rule)},{told}}}'


def _facts(facts: Sequence[Fact]) -> str:
    return f"[{','.join(f'{{{places(fact)}}}' for fact in facts)}]"


def _answer(answer: LogicalAnswer, rank: int) -> bytes:
    atoms = b",".join(map(_atom, answer.atoms))
    head = f'{{"bindings":{encode(answer.bindings)},"score":{number(answer.score)},"rank":{rank},"atoms":['
    return b"%b%b%b" % (head.encode(), atoms, END)


def _atom(atom: ProvedAtom) -> bytes:
    signs = f'"negated":{encode(atom.negated)},"stated":{encode(atom.stated)}'
    proofs = ",".join(map(proof_json, atom.proofs))
    written = f'{{"fact":{{{places(atom.fact)}}},"score":{number(atom.score)},{signs},"proofs":[{proofs}]}}'
    return written.encode()
