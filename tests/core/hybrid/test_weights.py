"""The weight of an embedding beside proofs."""

import numpy as np
import pytest

from ctp_core.base.evaluation import OWN_FROM, known_filters
from ctp_core.base.goals import GoalIds
from ctp_core.hybrid import weights
from ctp_core.hybrid.weights import WEIGHTS, ValidationLogits, choose_weights
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


def test_an_embedding_that_knows_the_answers_weighs_more_than_one_that_guesses() -> None:
    proofs = model_of("proofs")
    assert choose_weights(proofs, Truth(), KB, FACTS).min() > 1  # type: ignore[arg-type]
    assert choose_weights(Truth(), Noise(), KB, FACTS).max() < 0.1  # type: ignore[arg-type]


def test_few_questions_choose_no_weight_of_their_own() -> None:
    assert 2 * len(FACTS) < OWN_FROM
    assert len(set(choose_weights(model_of("proofs"), Truth(), KB, FACTS).tolist())) == 1  # type: ignore[arg-type]


def test_of_many_facts_the_ranks_alone_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs, embedding = model_of("proofs"), model_of("complex")
    monkeypatch.setattr(weights, "MANY_FACTS", len(FACTS))
    ranks = weights._reciprocal_ranks(proofs, embedding, known_filters(KB, "valid"), FACTS)
    best = WEIGHTS[int(ranks.mean((1, 2)).argmax())]
    assert set(choose_weights(proofs, embedding, KB, FACTS).tolist()) == {best}
