"""Writes the answers to logical questions as JSON, as answer_json.py does for goals."""

from ctp_core.base.model import Model
from ctp_core.logic.answers import LogicalAnswer, LogicalAnswers, ProvedAtom
from worker.answer_json import CUT, END, encode, number, places, proof_json


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


def _answer(answer: LogicalAnswer, rank: int) -> bytes:
    atoms = b",".join(map(_atom, answer.atoms))
    head = f'{{"bindings":{encode(answer.bindings)},"score":{number(answer.score)},"rank":{rank},"atoms":['
    return b"%b%b%b" % (head.encode(), atoms, END)


def _atom(atom: ProvedAtom) -> bytes:
    signs = f'"negated":{encode(atom.negated)},"stated":{encode(atom.stated)}'
    proofs = ",".join(map(proof_json, atom.proofs))
    written = f'{{"fact":{{{places(atom.fact)}}},"score":{number(atom.score)},{signs},"proofs":[{proofs}]}}'
    return written.encode()
