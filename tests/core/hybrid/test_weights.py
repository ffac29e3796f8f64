"""The weight of an embedding beside proofs."""

import numpy as np
import pytest

from ctp_core.base.evaluation import known_filters, rank_facts
from ctp_core.base.facts_model import FactsModel
from ctp_core.base.goals import GoalIds
from ctp_core.hybrid.weights import WEIGHTS, ValidationLogits, _reciprocal_ranks, choose_weights
from tests.core.base.test_facts_model import KB, model_of

FACTS = KB.splits["train"][::5]


def logits(proofs: list[list[float]], embedding: list[list[float]]) -> ValidationLogits:
    known = np.zeros((len(proofs), len(proofs[0])), dtype=bool)
    return ValidationLogits(np.array(proofs), np.array(embedding), np.zeros(len(proofs), dtype=np.int64), known)


def test_surprise_is_the_log_of_the_share_of_the_true_answer() -> None:
    found = logits([[0.0, 0.0, 0.0, 0.0]], [[1.0, 0.0, 0.0, 0.0]])
    assert found.surprise(0.0) == pytest.approx(np.log(4))
    assert found.surprise(1.0) < found.surprise(0.5) < found.surprise(0.0)
    assert found.reciprocal_ranks(0.0).tolist() == [1 / 2.5]
    assert found.reciprocal_ranks(1.0).tolist() == [1.0]


class Truth:
    """Knows every training fact."""

    def kb_logits(self, goals: GoalIds) -> np.ndarray:
        assert goals.place is not None
        rows = np.zeros((len(goals), len(KB.entities)))
        for fact in KB.splits["train"]:
            rows[(goals.given == fact[2 - goals.place]) & (goals.predicates == fact[1]), fact[goals.place]] = 10
        return rows


class Noise:
    def kb_logits(self, goals: GoalIds) -> np.ndarray:
        return np.random.default_rng(0).normal(size=(len(goals), len(KB.entities)))


@pytest.mark.slow
def test_an_embedding_that_knows_the_answers_weighs_more_than_one_that_guesses() -> None:
    proofs = model_of("proofs")
    assert choose_weights(proofs, Truth(), KB, FACTS).min() > 1  # type: ignore[arg-type]
    assert choose_weights(Truth(), Noise(), KB, FACTS).max() < 0.1  # type: ignore[arg-type]


def facts_model_of(method: str) -> FactsModel:
    model = model_of(method)
    assert isinstance(model, FactsModel)
    return model


def reciprocal_ranks(weights: np.ndarray, ranks: np.ndarray) -> float:
    index = np.searchsorted(WEIGHTS, weights[FACTS[:, 1]])
    return float(ranks.mean(1)[index, np.arange(len(FACTS))].mean())


@pytest.mark.parametrize("swapped", [False, True])
def test_on_validation_facts_the_whole_is_never_worse_than_its_parts(swapped: bool) -> None:
    parts = [facts_model_of("proofs"), facts_model_of("complex")]
    proofs, embedding = parts[::-1] if swapped else parts
    ranks = _reciprocal_ranks(proofs, embedding, known_filters(KB, "valid"), FACTS)
    chosen = choose_weights(proofs, embedding, KB, FACTS)
    assert reciprocal_ranks(chosen, ranks) >= max(ranks[0].mean(), ranks[-1].mean())


def test_the_largest_weight_leaves_the_lead_to_the_embedding() -> None:
    proofs, embedding = facts_model_of("proofs"), facts_model_of("complex")
    filters = known_filters(KB, "valid")
    alone = 1 / rank_facts(FACTS, embedding.kb_logits, filters)
    found = _reciprocal_ranks(proofs, embedding, filters, FACTS)[-1].ravel()
    assert found.mean() == pytest.approx(alone.mean(), abs=0.05)
