"""Chooses the weight of the embedding for each predicate on validation facts, shrunk towards a common weight."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from ctp_core.base.evaluation import ASKED, BATCH, KnownFilter, as_good, known_filters, realistic_ranks
from ctp_core.base.facts_model import FactsModel
from ctp_core.base.goals import GoalIds
from ctp_core.base.shrinkage import shrunk_choices
from ctp_core.hybrid.config import CHOOSING_LOGITS
from ctp_core.kb.knowledge_base import FactIds, FactsKB

Filters = tuple[KnownFilter, KnownFilter]
WEIGHTS = (0.0, *(0.02 * 1.3**step for step in range(33)))  # 0.02 … 89: from the proofs alone to the embedding alone
DEFAULT_WEIGHT = 0.05  # without validation facts: proofs lead, the embedding breaks ties


@dataclass(frozen=True)
class ValidationLogits:
    """What both parts say of every answer to the questions of the validation facts, objects first."""

    proofs: Float[np.ndarray, "question entity"]
    embedding: Float[np.ndarray, "question entity"]
    true: Int[np.ndarray, " question"]
    known: Bool[np.ndarray, "question entity"]

    @classmethod
    def of(cls, proofs: FactsModel, embedding: FactsModel, filters: Filters, facts: FactIds) -> "ValidationLogits":
        objects, subjects = filters
        known = [objects.mask(facts[:, 0], facts[:, 1]), subjects.mask(facts[:, 2], facts[:, 1])]
        true = np.concatenate([facts[:, 2], facts[:, 0]])
        return cls(_both_ways(proofs, facts), _both_ways(embedding, facts), true, np.concatenate(known))

    def reciprocal_ranks(self, weight: float) -> Float[np.ndarray, " question"]:
        return np.asarray(1 / realistic_ranks(self.proofs + weight * self.embedding, self.true, self.known))

    def surprise(self, weight: float) -> float:
        """-log of the chance of the true answer among all that are not also true, at the best temperature."""
        logits = self.proofs + weight * self.embedding
        rows = np.arange(len(self.true))
        target = logits[rows, self.true]
        margins = np.where(self.known, -np.inf, logits - target[:, None])
        margins[rows, self.true] = 0
        best = margins.max(1, keepdims=True)  # 0 or more: no sum overflows
        margins -= best
        sums = (cold * best[:, 0] + np.log(np.exp(cold * margins).sum(1)) for cold in (0.7, 0.85, 1.0, 1.2, 1.5))
        return min(float(one.mean()) for one in sums)


def choose_weights(
    proofs: FactsModel, embedding: FactsModel, kb: FactsKB, facts: FactIds, given: float | None = None
) -> Float[np.ndarray, " predicate"]:
    """A weight for each predicate, shrunk towards a common one; on these facts no worse than either part alone.

    All have the `given` weight if there is one, and a small one if there are no facts to choose by.
    MRR cannot tell neighbouring weights apart: the common weight is the likeliest among those whose MRR is within a
    standard error of the best.
    """
    if given is not None or not len(facts):
        return np.full(len(kb.predicates), DEFAULT_WEIGHT if given is None else given)
    filters = known_filters(kb, "valid")
    ranks = _reciprocal_ranks(proofs, embedding, filters, facts)
    some = facts[np.linspace(0, len(facts) - 1, _affordable(kb, facts)).astype(np.int64)]
    logits = ValidationLogits.of(proofs, embedding, filters, some)
    common = min(_good(ranks), key=lambda index: logits.surprise(WEIGHTS[index]))
    chosen = shrunk_choices(ranks, facts[:, 1], len(kb.predicates), common)
    return np.asarray(np.array(WEIGHTS)[chosen])


def _good(ranks: Float[np.ndarray, "weight way fact"]) -> list[int]:
    """The weights that are as good as the best, and not worse than the proofs or the embedding alone."""
    means = ranks.mean((1, 2))
    best, alone = ranks[int(means.argmax())].ravel(), max(means[0], means[-1])
    return [index for index, found in enumerate(ranks) if means[index] >= alone and as_good(found.ravel(), best)]


def _affordable(kb: FactsKB, facts: FactIds) -> int:
    return min(len(facts), max(1, int(CHOOSING_LOGITS / len(kb.entities))))


def _reciprocal_ranks(
    proofs: FactsModel, embedding: FactsModel, filters: Filters, facts: FactIds
) -> Float[np.ndarray, "weight way fact"]:
    """The reciprocal ranks under every weight, computed in batches to bound memory."""
    ranks = np.zeros((len(WEIGHTS), 2, len(facts)))
    order = np.argsort(facts[:, 1], kind="stable")  # a model may keep what it knows of a predicate for the next fact
    for start in range(0, len(facts), BATCH):
        rows = order[start : start + BATCH]
        logits = ValidationLogits.of(proofs, embedding, filters, facts[rows])
        for found, weight in zip(ranks, WEIGHTS, strict=True):
            found[:, rows] = logits.reciprocal_ranks(weight).reshape(2, -1)
    return ranks


def _both_ways(model: FactsModel, facts: FactIds) -> Float[np.ndarray, "question entity"]:
    both = [model.kb_logits(GoalIds.hiding(facts, place, for_ranking=True)) for place in ASKED]
    return np.concatenate(both).astype(np.float32)
