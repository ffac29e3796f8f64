"""Answers logical questions with any model of facts: bindings with their score, and the proofs of each atom."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from ctp_core.base.deadline import OutOfTime
from ctp_core.base.facts_model import Explanation, FactsModel
from ctp_core.base.goals import GoalIds
from ctp_core.base.model import Budget, Model
from ctp_core.errors import BadQuestion
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.logic.formula import signed_atoms
from ctp_core.logic.numbered import Bound, Numbers, number
from ctp_core.logic.plan import described, make_plan
from ctp_core.logic.question import LogicalQuestion
from ctp_core.logic.scores import Scores
from ctp_core.logic.search import DEFAULT_WIDTH, Search
from ctp_core.proofs import Proof, ProofNode, Unification
from ctp_core.symbols import Fact

SEARCH_SHARE = 0.8  # of the time; the rest is for proofs


@dataclass(frozen=True)
class ProvedAtom:
    """A fact that an answer rests on. Where it is `negated`, its score is 1 minus its probability.

    `stated` facts are their own proof.
    """

    fact: Fact
    score: float
    negated: bool
    stated: bool
    proofs: tuple[Proof, ...] = ()


@dataclass(frozen=True)
class LogicalAnswer:
    """What the selected variables stand for; the atoms in the order of the question."""

    bindings: Mapping[str, str]
    score: float
    atoms: tuple[ProvedAtom, ...]


@dataclass(frozen=True)
class LogicalAnswers:
    """Best first. `exact`: the search left no candidate out, so that these are the best answers there are."""

    items: tuple[LogicalAnswer, ...]
    exact: bool
    truncated: bool
    width: int
    warnings: tuple[str, ...] = ()
    plan: Sequence[Mapping[str, object]] | None = None


def answer(model: Model, question: LogicalQuestion, budget: Budget, width: int = DEFAULT_WIDTH) -> LogicalAnswers:
    """The best answers; raises CtpError where the question does not fit the model."""
    if not isinstance(model, FactsModel):
        raise BadQuestion("`where` asks a model of facts; a model of graphs answers a `goal` about each graph")
    with torch.no_grad():
        return _Answering(model, question, budget, width).answers()


class _Answering:
    """One question with the view it is asked against."""

    def __init__(self, model: FactsModel, question: LogicalQuestion, budget: Budget, width: int) -> None:
        self._model, self._question, self._budget, self._width = model, question, budget, width
        self._view, self._warnings = model.view_of(question.facts, question.without, budget)
        self._numbers: Numbers = number(question, self._view)

    def answers(self) -> LogicalAnswers:
        expired = self._expired
        scores = Scores(self._model, self._view, expired)
        plan = make_plan(self._question.where, self._numbers, self._view)
        outcome = Search(self._question, plan, self._numbers, scores, expired, self._width).run()
        order = [step.variable for step in plan.steps]
        bindings = [dict(zip(order, found.entities, strict=True)) for found in outcome.found]
        try:
            proved, all_explained = self._proved(scores, [self._facts(bound) for bound in bindings])
        except OutOfTime:
            return LogicalAnswers((), False, True, self._width, self._warnings)
        items = (
            LogicalAnswer(self._named(bound), found.score, atoms)
            for bound, found, atoms in zip(bindings, outcome.found, proved, strict=True)
        )
        return LogicalAnswers(
            tuple(items),
            outcome.exact and not outcome.truncated,
            outcome.truncated or not all_explained,
            self._width,
            self._warnings,
            described(plan) if self._question.explain else None,
        )

    def _expired(self) -> bool:
        return self._budget.used(SEARCH_SHARE)

    def _named(self, bound: Bound) -> dict[str, str]:
        return {str(variable): self._view.entities.names[bound[variable]] for variable in self._question.select}

    def _facts(self, bound: Bound) -> list[tuple[int, int, int]]:
        return [self._numbers.fact(atom, bound) for atom in self._question.atoms]

    def _proved(
        self, scores: Scores, answers: Sequence[Sequence[tuple[int, int, int]]]
    ) -> tuple[list[tuple[ProvedAtom, ...]], bool]:
        """The atoms of each answer with their proofs, and whether there was time for all of these."""
        signs = [negated for _, negated in signed_atoms(self._question.where)]
        distinct = list(dict.fromkeys(fact for facts in answers for fact in facts))
        ids = np.array(distinct, dtype=np.int64).reshape(-1, 3)
        logits = self._model.logits(self._view, GoalIds.hiding(ids, None))[:, 0] if len(ids) else np.zeros(0)
        values = dict(zip(distinct, scores.of(ids, logits).tolist(), strict=True))
        stated = dict(zip(distinct, self._view.edges.states(ids).tolist(), strict=True))
        wanted = {f for facts in answers for f, negated in zip(facts, signs, strict=True) if not negated}
        unstated = [at for at, fact in enumerate(distinct) if fact in wanted and not stated[fact]]
        found = self._explanations(ids[unstated], logits[unstated])
        proofs = {distinct[at]: why.proofs for at, why in zip(unstated, found, strict=False)}

        def proved(fact: tuple[int, int, int], negated: bool) -> ProvedAtom:
            named, own = self._view.fact(*fact), tuple[Proof, ...]()
            if not negated and self._question.proofs:
                own = (stated_proof(named),) if stated[fact] else proofs.get(fact, ())
            return ProvedAtom(named, 1 - values[fact] if negated else values[fact], negated, stated[fact], own)

        rows = [tuple(proved(*one) for one in zip(facts, signs, strict=True)) for facts in answers]
        return rows, len(found) == len(unstated)

    def _explanations(self, facts: FactIds, logits: Float[np.ndarray, " fact"]) -> list[Explanation]:
        if not self._question.proofs:
            return [Explanation()] * len(facts)
        return self._model.explain_in_time(self._view, facts, logits, self._question.proofs, self._budget)


def stated_proof(fact: Fact) -> Proof:
    """A stated fact as its own proof."""
    met = Unification(fact.predicate, fact.predicate, 1.0)
    return Proof(ProofNode(fact, 1.0, "fact", (met,), fact=fact))
