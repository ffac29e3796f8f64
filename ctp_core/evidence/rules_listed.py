"""Which rules with constants are worth listing: those that explain most of what no other rule explains as well."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ctp_core.confidence import support_of
from ctp_core.evidence.rules_constants import AtomIds, ConstantRules
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.rules import SIDES, Template

POOL = 100  # rules of each side that are looked at to choose those worth listing
MOST_FACTS = 100  # facts of each such rule that are looked at
LONGER = 0.8  # so much counts of what a rule of two atoms explains
Explained = Callable[[FactIds], Float[np.ndarray, " fact"]]


class _Explaining(NamedTuple):
    """A rule and what it explains; sorted, those that explain most come first."""

    explains: float  # negative
    body: AtomIds
    evidence: float


def best_bodies(rules: ConstantRules, predicate: int, wanted: int, explained: Explained) -> list[AtomIds]:
    """The rules that explain most. One whose facts are explained as well without it is left out.

    `explained` tells how much evidence rules without constants have for facts.
    """
    pool = sorted(rule for side in SIDES for rule in _explaining(rules, predicate, side))
    facts = [_explained_by(rules, predicate, rule.body)[:MOST_FACTS] for rule in pool]
    numbers = np.cumsum([0, *map(len, facts)])
    every, which = np.unique(np.concatenate([np.zeros((0, 3), np.int64), *facts]), axis=0, return_inverse=True)
    strength, found = explained(every), list[AtomIds]()
    for rule, start, end in zip(pool, numbers[:-1], numbers[1:], strict=True):
        mine = which[start:end]
        if len(found) < wanted and 2 * np.count_nonzero(2 * strength[mine] >= rule.evidence) <= len(mine):
            strength[mine] = np.maximum(strength[mine], rule.evidence)
            found.append(rule.body)
    return found


def _explaining(rules: ConstantRules, predicate: int, side: Template) -> list[_Explaining]:
    """The rules of a side with the highest product of evidence and support; a long one must explain more."""
    pool = list[_Explaining]()
    for features, constants, evidence in rules.rules_of(predicate, side):
        explains = support_of(-np.expm1(-evidence), rules.body_counts[features]) * evidence
        explains = np.where(rules.features.long[features], LONGER * explains, explains)
        best = np.lexsort((constants, features, -explains))[:POOL]
        cells = (column[best].tolist() for column in (explains, evidence, features, constants))
        pool += [_Explaining(-e, rules.body(side, f, c), said) for e, said, f, c in zip(*cells, strict=True)]
    return sorted(pool)[:POOL]


def _explained_by(rules: ConstantRules, predicate: int, body: AtomIds) -> FactIds:
    """The facts that a rule with constants explains."""
    side, feature, constant = rules.parts(body)
    table = rules.features.with_feature
    having = table.indices[table.indptr[feature] : table.indptr[feature + 1]]
    about = np.intersect1d(having, rules.stated_of(predicate, side, constant))
    facts = np.full((len(about), 3), [constant, predicate, constant])
    facts[:, 0 if side.about_subject else 2] = about
    return facts
