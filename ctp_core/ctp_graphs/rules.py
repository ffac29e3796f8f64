"""Decodes the rules of a theory to the nearest known predicates, best first."""

import heapq
from itertools import product

import torch

from ctp_core.ctp_graphs.tabled import TabledRules, TabledTheory, close
from ctp_core.ctp_graphs.theory import Theory
from ctp_core.rules import SURE, Body, Rule, each_once
from ctp_core.select.memory import MemorySelect
from ctp_core.symbols import Vocabulary
from ctp_core.tnorm.base import TNorm

ALTERNATIVES = 3  # predicates decoded for a body place besides the nearest
BODIES = (
    1 + ALTERNATIVES
) ** 2  # decoded for one head and reformulator: all bodies of two places, the best longer ones
MIN_CONFIDENCE = 0.05  # less confident alternatives are noise; the nearest body is always listed


@torch.no_grad()
def decode(theory: Theory, predicates: Vocabulary, tnorm: TNorm, attention: bool) -> list[Rule]:
    """One or more rules for each predicate and reformulator; the most confident of equal rules."""
    closed = close(theory, tnorm, attention)
    found = [rule for rules in closed.rules for rule in _decoded(rules, predicates, tnorm, attention)]
    if isinstance(theory.select, MemorySelect):
        found += _stored(theory, theory.select, predicates, tnorm)
    return sorted(each_once(found), key=lambda rule: (-rule.confidence, rule.text))


def decode_merged(closed: TabledTheory, predicates: Vocabulary, tnorm: TNorm) -> list[Rule]:
    """The rules that several members answer with, each with its mean weight; their bodies are known predicates."""
    found = [rule for rules in closed.rules for rule in _decoded(rules, predicates, tnorm, attention=True)]
    listed = [rule for rule in each_once(found) if rule.confidence >= MIN_CONFIDENCE]
    return sorted(listed, key=lambda rule: (-rule.confidence, rule.text))


def _decoded(rules: TabledRules, predicates: Vocabulary, tnorm: TNorm, attention: bool) -> list[Rule]:
    count = len(predicates)
    width = min(1 + ALTERNATIVES, count)
    tops = [place.view(count, -1, count).topk(width, dim=0) for place in rules.places]  # [rank, reformulator, head]
    values = [top.values.double().tolist() for top in tops]
    indices = [top.indices.tolist() for top in tops]
    guard = None if rules.guard is None else rules.guard.double().tolist()
    found = []
    for reformulator, head in product(range(tops[0].values.shape[1]), range(count)):
        gate = [] if guard is None else [guard[reformulator][head]]
        if gate == [0.0]:
            continue  # a rule that `select` never tries for this goal
        for ranks in _best([[top[reformulator][head] for top in value] for value in values], gate, tnorm):
            scores = [value[rank][reformulator][head] for value, rank in zip(values, ranks, strict=True)]
            confidence = min(1.0, max(0.0, tnorm.of([*gate, *scores])))
            if any(ranks) and confidence < MIN_CONFIDENCE:
                continue
            names = tuple(predicates.names[i[rank][reformulator][head]] for i, rank in zip(indices, ranks, strict=True))
            body, approximate = Body.of(rules.template, names), not attention and min(scores) < SURE
            found.append(Rule(predicates.names[head], body, confidence, approximate=approximate))
    return found


def _best(places: list[list[float]], gate: list[float], tnorm: TNorm) -> list[tuple[int, ...]]:
    """The ranks of the best bodies, best first. A further place never changes the order of two prefixes under ⊗."""

    def score(ranks: tuple[int, ...]) -> float:
        return tnorm.of([*gate, *(values[rank] for values, rank in zip(places, ranks, strict=False))])

    kept: list[tuple[int, ...]] = [()]
    for values in places:
        kept = heapq.nlargest(BODIES, ((*ranks, rank) for ranks in kept for rank in range(len(values))), key=score)
    return kept


def _stored(theory: Theory, select: MemorySelect, predicates: Vocabulary, tnorm: TNorm) -> list[Rule]:
    """The rows of the memory, each under the head that attends to it most."""
    found = []
    for template in select.groups:
        attention = select.rule_attention(template, theory.vectors).amax(dim=1)  # [goal, rule]
        heads = attention.max(dim=0)
        stored = select.stored(template)
        meets = theory.meet(stored.reshape(-1, stored.shape[2]), theory.vectors).view(*stored.shape[:2], -1).max(dim=2)
        for row in range(stored.shape[0]):
            body = Body.of(template, tuple(predicates.names[i] for i in meets.indices[row].tolist()))
            confidence = tnorm.of([float(heads.values[row]), *meets.values[row].tolist()])
            head = predicates.names[int(heads.indices[row])]
            found.append(Rule(head, body, min(1.0, max(0.0, confidence)), approximate=True))
    return found
