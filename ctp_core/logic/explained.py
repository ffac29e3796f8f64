"""Why a fact has its score, why it has no better one, and which facts it would not have it without."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch

from ctp_core.base.deadline import OutOfTime, look
from ctp_core.base.facts_model import FactsModel, FactsView
from ctp_core.base.goals import GoalIds
from ctp_core.base.model import Answer, Answers, Budget, Model, Question
from ctp_core.errors import BadQuestion, CtpError
from ctp_core.logic.near_misses import NearMiss, near_misses
from ctp_core.symbols import Fact, Goal

WHY_NOT_SHARE, TRIED_SHARE, CHANGE_SHARE = 0.5, 0.8, 0.95  # of the time, by when each part must end
EXACT_UP_TO = 3  # facts of a set that is found by trying all sets
MAX_CANDIDATES = 60  # facts that are tried: those of the proofs with the largest shares
LISTED_PROOFS = 100  # in which such facts are looked for


@dataclass(frozen=True)
class Change:
    """A set of facts without which the fact scores below the threshold; none where `reason` says why there is none.

    `smallest`: no smaller set does it among all facts of all proofs.
    """

    facts: tuple[Fact, ...]
    score_then: float
    smallest: bool
    reason: str | None = None


@dataclass(frozen=True)
class FactExplained:
    """`why_not` are rules that lack one fact, those that would raise the score most first."""

    why: Answers
    why_not: tuple[NearMiss, ...]
    change: Change
    threshold: float
    truncated: bool


@dataclass(frozen=True)
class ToExplain:
    """A fact, and what is wanted of it; `facts` and `without` as in a Question."""

    fact: Fact
    threshold: float = 0.5
    proofs: int = 10
    near_misses: int = 10
    facts: tuple[Fact, ...] = ()
    without: tuple[Fact, ...] = ()


def explain_fact(model: Model, asked: ToExplain, budget: Budget) -> FactExplained:
    """Raises CtpError where the fact does not fit the model."""
    if not isinstance(model, FactsModel):
        raise BadQuestion("only a model of facts can be asked to explain a fact; ask a model of graphs with `goal`")
    with torch.no_grad():
        return _Explaining(model, asked, budget).explained()


class _Explaining:
    def __init__(self, model: FactsModel, asked: ToExplain, budget: Budget) -> None:
        self._model, self._asked, self._budget = model, asked, budget

    def explained(self) -> FactExplained:
        why = self._why(self._asked.proofs)
        if not why.items:
            return FactExplained(why, (), Change((), 0.0, False, "out_of_time"), self._asked.threshold, True)
        score = score_of(why.items[0])
        cut = why.truncated
        found: list[NearMiss] = []
        try:
            for miss in self._near_misses():
                found.append(miss)
        except OutOfTime:
            cut = True
        found.sort(key=lambda miss: (-miss.score_then, miss.rule.text))
        change = self._change(score)
        return FactExplained(why, tuple(found[: self._asked.near_misses]), change, self._asked.threshold, cut)

    def _why(self, proofs: int) -> Answers:
        asked = self._asked
        question = Question(Goal(*asked.fact), asked.facts, 1, proofs, without=asked.without)
        [found] = self._model.answer([question], self._budget)
        if isinstance(found, CtpError):
            raise found
        return found

    def _score(self, facts: Sequence[Fact] = (), without: Sequence[Fact] = ()) -> float:
        """The score with more facts, or with fewer."""
        asked = self._asked
        view, _ = self._model.view_of((*asked.facts, *facts), (*asked.without, *without), self._budget)
        ids = _ids(view, asked.fact)
        return float(self._model.probabilities(ids, self._model.logits(view, GoalIds.hiding(ids, None))[:, 0])[0])

    def _near_misses(self) -> Iterator[NearMiss]:
        asked = self._asked
        view, _ = self._model.view_of(asked.facts, asked.without, self._budget)
        subject, predicate, object_ = _ids(view, asked.fact)[0].tolist()
        rules = sorted(self._model.rules_of(predicate), key=lambda rule: -(rule.weight or rule.confidence))
        for miss in near_misses(view, rules, (subject, predicate, object_)):
            if self._budget.used(WHY_NOT_SHARE):
                raise OutOfTime
            yield miss._replace(score_then=self._score(facts=(miss.missing,)))

    def _change(self, score: float) -> Change:
        """The smallest set of facts whose removal takes the score below the threshold, by trying; then greedily."""
        if score < self._asked.threshold:
            return Change((), score, True, "below_threshold")
        why = self._why(LISTED_PROOFS)
        candidates = _candidates(why.items[0]) if why.items else []
        if not candidates and why.truncated:
            return Change((), score, False, "out_of_time")
        if not candidates:
            return Change((), score, True, "rests_on_no_facts")
        complete = len(candidates) <= MAX_CANDIDATES and _all_listed(why)
        candidates = candidates[:MAX_CANDIDATES]
        try:
            if self._score(without=candidates) >= self._asked.threshold:
                return Change((), self._score(without=candidates), complete, "rests_on_more")
            return self._smallest(candidates, complete=complete) or self._greedy(candidates)
        except OutOfTime:
            return Change((), score, False, "out_of_time")

    def _look(self) -> None:
        look(lambda: self._budget.used(CHANGE_SHARE))

    def _smallest(self, candidates: Sequence[Fact], *, complete: bool) -> Change | None:
        """The first set of up to EXACT_UP_TO facts that does it, smaller sets first; None where time is short."""
        for size in range(1, EXACT_UP_TO + 1):
            for some in combinations(candidates, size):
                if self._budget.used(TRIED_SHARE):
                    return None
                score = self._score(without=some)
                if score < self._asked.threshold:
                    return Change(some, score, complete)
        return None

    def _greedy(self, candidates: Sequence[Fact]) -> Change:
        """Takes the fact that lowers the score most, again and again; then puts back what was not needed."""
        chosen: list[Fact] = []
        score = 1.0
        while score >= self._asked.threshold:
            self._look()
            left = [fact for fact in candidates if fact not in chosen]
            score, best = min((self._score(without=(*chosen, fact)), fact) for fact in left)
            chosen.append(best)
        for fact in tuple(chosen):
            self._look()
            rest = [other for other in chosen if other != fact]
            if rest and (without := self._score(without=rest)) < self._asked.threshold:
                chosen, score = rest, without
        return Change(tuple(chosen), score, False)


def score_of(answer: Answer) -> float:
    return answer.score if answer.probability is None else answer.probability


def _ids(view: FactsView, fact: Fact) -> np.ndarray:
    return np.array(
        [[view.entities.id(fact.subject), view.predicates.id(fact.predicate), view.entities.id(fact.object)]]
    )


def _candidates(answer: Answer) -> list[Fact]:
    """The facts of the proofs, those in the proofs with the largest shares first."""
    weight: dict[Fact, float] = {}
    for proof in answer.proofs:
        for fact in set(proof.facts):
            weight[fact] = weight.get(fact, 0.0) + (proof.score if proof.share is None else proof.share)
    return sorted(weight, key=lambda fact: (-weight[fact], fact))


def _all_listed(why: Answers) -> bool:
    answer = why.items[0]
    if why.truncated or len(answer.proofs) >= LISTED_PROOFS:
        return False
    if answer.score_parts is None:
        return True
    count = answer.score_parts.get("num_proofs")  # None: too many to count
    return count is not None and count <= len(answer.proofs)
