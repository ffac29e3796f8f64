"""How much an embedding may say beside proofs: one weight, chosen on validation facts."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from ctp_core.datasets.kb import FactIds, FactsKB
from ctp_core.evaluation.ranking import known_filters, realistic_ranks
from ctp_core.models.facts_model import FactsModel

WEIGHTS = (0.0, *(0.02 * 1.25**step for step in range(26)))  # 0.02 … 5.3
MAX_CELLS = 3e7  # logits kept of each part: bounds memory at half a gigabyte


@dataclass(frozen=True)
class ValidationLogits:
    """What both parts say of every answer to the questions of the validation facts, objects first."""

    proofs: Float[np.ndarray, "question entity"]
    embedding: Float[np.ndarray, "question entity"]
    true: Int[np.ndarray, " question"]
    known: Bool[np.ndarray, "question entity"]

    @classmethod
    def of(cls, proofs: FactsModel, embedding: FactsModel, kb: FactsKB, facts: FactIds) -> "ValidationLogits":
        objects, subjects = known_filters(kb, "valid")
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


def choose_weight(proofs: FactsModel, embedding: FactsModel, kb: FactsKB, facts: FactIds) -> float:
    """The likeliest weight of those whose MRR is within two standard errors of the best.

    The MRR of a few hundred facts says little between neighbouring weights; the likelihood says more, but of
    probabilities, not of ranks. Each decides what it can.
    """
    logits = ValidationLogits.of(proofs, embedding, kb, facts)
    ranks = {weight: logits.reciprocal_ranks(weight) for weight in WEIGHTS}
    best = max(ranks, key=lambda weight: float(ranks[weight].mean()))
    good = [weight for weight in WEIGHTS if _as_good(ranks[weight], ranks[best])]
    return min(good, key=logits.surprise)


def _as_good(ranks: Float[np.ndarray, " question"], best: Float[np.ndarray, " question"]) -> bool:
    lost = best - ranks
    return bool(lost.mean() <= 2 * lost.std() / np.sqrt(len(lost)))


def _both_ways(model: FactsModel, facts: FactIds) -> Float[np.ndarray, "question entity"]:
    objects, subjects = (
        model.object_logits(facts[:, 0], facts[:, 1]),
        model.subject_logits(facts[:, 2], facts[:, 1]),
    )
    return np.concatenate([objects, subjects]).astype(np.float32)
