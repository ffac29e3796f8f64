"""The planted rules applied by hand to the training facts: what a model that knows them all would reach."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ctp_core.base.evaluation import ASKED, known_filters
from ctp_core.base.goals import Place
from ctp_core.benchmarks.ladder.synthetic import Pairs, SyntheticKB, distinct_pairs, join
from ctp_core.kb.knowledge_base import FactIds, FactsKB, fact_keys
from ctp_core.rules import Rule, Step


class Conclusions:
    """Facts that rules conclude from the training facts, each with 1 - Π (1 - confidence) over the rules for it."""

    def __init__(self, kb: FactsKB, rules: Iterable[Rule]) -> None:
        self._kb = kb
        found = [(concluded(kb, rule), np.log1p(-rule.confidence)) for rule in rules]
        facts = np.concatenate([np.zeros((0, 3), dtype=np.int64), *(facts for facts, _ in found)])
        doubts = np.concatenate([np.zeros(0), *(np.full(len(facts), doubt) for facts, doubt in found)])
        _, first, which = np.unique(
            fact_keys(facts, len(kb.entities), len(kb.predicates)), return_index=True, return_inverse=True
        )
        self.facts: FactIds = facts[first]
        self.scores: NDArray[np.float64] = -np.expm1(np.bincount(which, doubts, minlength=len(first)))

    def ranks(self, split: str) -> Float[np.ndarray, " question"]:
        """The filtered ranks of all objects, then of all subjects; what no rule concludes has score 0."""
        asked = self._kb.splits[split]
        return np.concatenate([self._ranks(asked, way, split) for way in range(len(ASKED))])

    def _ranks(self, asked: FactIds, way: int, split: str) -> Float[np.ndarray, " question"]:
        place = ASKED[way]
        given = Place.SUBJECT if place == Place.OBJECT else Place.OBJECT
        width = len(self._kb.predicates)
        keys = self.facts[:, given] * width + self.facts[:, 1]
        order = np.argsort(keys, kind="stable")
        keys, candidates, scores = keys[order], self.facts[order, place], self.scores[order]
        wanted = asked[:, given] * width + asked[:, 1]
        starts, ends = (np.searchsorted(keys, wanted, side=side) for side in ("left", "right"))
        filters = known_filters(self._kb, split)[way]
        ranks = np.zeros(len(asked))
        for row, (fact, start, end) in enumerate(zip(asked, starts, ends, strict=True)):
            rivals = ~filters.mask(fact[given : given + 1], fact[1:2])[0]
            mine = scores[start:end][candidates[start:end] == fact[place]].sum()
            among = rivals[candidates[start:end]]
            above = (scores[start:end][among] > mine).sum()
            equal = (scores[start:end][among] == mine).sum() if mine else rivals.sum() - among.sum()
            ranks[row] = 1 + above + equal / 2
        return ranks


def planted_ranks(made: SyntheticKB, split: str) -> Float[np.ndarray, " question"]:
    return Conclusions(made.kb, made.rules).ranks(split)


def concluded(kb: FactsKB, rule: Rule) -> FactIds:
    """What one rule concludes from the training facts, each fact once."""
    pairs = _step(kb, rule.body.steps[0])
    for step in rule.body.steps[1:]:
        pairs = distinct_pairs(join(pairs, _step(kb, step)))
    if rule.body.about:
        assert rule.body.end is not None and rule.constant is not None
        starts = np.unique(pairs[pairs[:, 1] == kb.entities.id(rule.body.end), 0])
        fixed = np.full(len(starts), kb.entities.id(rule.constant))
        pairs = np.column_stack([starts, fixed] if rule.body.about == "X" else [fixed, starts])
    return np.column_stack([pairs[:, 0], np.full(len(pairs), kb.predicates.id(rule.predicate)), pairs[:, 1]])


def _step(kb: FactsKB, step: Step) -> Pairs:
    train = kb.splits["train"]
    pairs = train[train[:, 1] == kb.predicates.id(step.predicate)][:, [0, 2]]
    return np.asarray(pairs[:, ::-1] if step.inverse else pairs)
