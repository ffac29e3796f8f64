"""Scores that are probabilities: the fit, what it must not change, and the error that is reported."""

import numpy as np
import pytest
from scipy.special import expit

from ctp_core.base.bend import FIXED, KNOTS, Bend
from ctp_core.base.calibration import MISSING, Calibration, answers_of, calibrate, calibrate_on_unseen
from ctp_core.base.goals import GoalIds, Score
from ctp_core.base.reliability import Bin, expected_calibration_error, looked_at, reliability
from ctp_core.errors import ArtifactError
from ctp_core.kb.knowledge_base import FactIds, FactsKB
from ctp_core.kb.splits import HOLD_OUT_SHARE, FactsSplit
from ctp_core.symbols import Vocabulary

SIZE = 90  # entities
RANKED = (3.0, -2.0)  # (factor, summand) between the logit of the truth and what the model ranks by


def test_a_bin_tells_how_many_of_its_answers_are_true() -> None:
    scores, true = np.array([0.05, 0.81, 0.85, 1.0]), np.array([False, True, False, True])
    low, high, best = reliability(scores, true)
    assert low == Bin(0.0, 0.1, 1.0, 0.05, 0.0)
    assert high == (0.8, 0.9, 2.0, pytest.approx(0.83), 0.5)
    assert best == Bin(0.9, 1.0, 1.0, 1.0, 1.0)


def test_the_calibration_error_is_the_mean_distance_of_the_bins_by_their_answers() -> None:
    scores, true = np.array([0.2, 0.2, 0.2, 0.9]), np.array([False, False, True, True])
    assert expected_calibration_error(scores, true) == pytest.approx((3 * (1 / 3 - 0.2) + 0.1) / 4)
    assert expected_calibration_error(scores[:0], true[:0]) == 0.0


def test_an_answer_without_weight_does_not_count() -> None:
    scores, true = np.array([0.5, 0.5, 0.5]), np.array([True, False, False])
    assert expected_calibration_error(scores, true, np.array([1.0, 1.0, 0.0])) == pytest.approx(0.0)


def test_scores_drawn_as_probabilities_have_hardly_any_error() -> None:
    choose = np.random.default_rng(0)
    scores = choose.random(20_000)
    assert expected_calibration_error(scores, choose.random(20_000) < scores) < 0.02


def test_the_ten_best_are_looked_at_and_whatever_is_scored_high() -> None:
    assert looked_at(np.array([0.0, 0.0, 0.2]), np.array([9, 10, 50])).tolist() == [True, False, True]


def drawn(seed: int, levels: tuple[float, ...] = (-4.0, -1.0)) -> tuple[FactsKB, Score]:
    """A KB whose facts are drawn from known probabilities, and a score that ranks by them on another scale.

    Test facts are those that the KB lacks: MISSING for each validation fact.
    """
    choose = np.random.default_rng(seed)
    truth = 2.5 * choose.normal(size=(len(levels), SIZE, SIZE)) + np.array(levels)[:, None, None]
    stated = choose.random(truth.shape) < expit(truth)
    predicate, subject, object_ = stated.nonzero()
    facts = np.stack([subject, predicate, object_], axis=1)[choose.permutation(len(subject))]
    splits = np.split(
        facts,
        [round((1 - HOLD_OUT_SHARE * (1 + MISSING)) * len(facts)), round((1 - HOLD_OUT_SHARE * MISSING) * len(facts))],
    )
    names = Vocabulary("entity", map(str, range(SIZE))), Vocabulary("predicate", map(str, range(len(levels))))
    ranked = (truth - RANKED[1]) / RANKED[0]

    def score(goals: GoalIds) -> np.ndarray:
        tables = ranked[goals.predicates]
        rows = np.arange(len(goals))
        return tables[rows, goals.given] if goals.forward else tables[rows, :, goals.given]

    return FactsKB(*names, dict(zip(("train", "valid", "test"), splits, strict=True))), score


def error(kb: FactsKB, score: Score, fitted: Calibration) -> float:
    return expected_calibration_error(*answers_of(score, fitted, kb, "test"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_scores_become_probabilities_of_test_facts_that_were_never_looked_at(seed: int) -> None:
    kb, score = drawn(seed)
    found = calibrate_on_unseen(lambda _: score, kb, FactsSplit.of(kb))
    assert found is not None
    assert error(kb, score, found) < 0.05
    assert error(kb, score, Calibration(np.ones(2), np.zeros(2))) > 0.1
    assert found.ece is not None
    assert found.ece < 0.06


def test_true_facts_that_a_kb_lacks_would_count_as_false() -> None:
    kb, score = drawn(0)
    naive, informed = (calibrate([(score, FactsSplit.of(kb))], kb, missing) for missing in (0.0, MISSING))
    assert naive is not None
    assert informed is not None
    assert error(kb, score, informed) < error(kb, score, naive) - 0.02


def saturating(seed: int, exact: bool) -> tuple[FactsKB, Score]:
    """As `drawn`, but a first proof lifts an answer to a chance at which it stays: .5, or 1 if `exact`."""
    choose = np.random.default_rng(seed)
    ranked = 3 * choose.normal(size=(1, SIZE, SIZE)) - 4
    chance = np.where(ranked > 0, 1.0 if exact else 0.5, 0.01)
    predicate, subject, object_ = (choose.random(chance.shape) < chance).nonzero()
    facts = np.stack([subject, predicate, object_], axis=1)[choose.permutation(len(subject))]
    ends = np.round(np.array([1 - 2 * HOLD_OUT_SHARE, 1 - HOLD_OUT_SHARE]) * len(facts)).astype(int)
    names = Vocabulary("entity", map(str, range(SIZE))), Vocabulary("predicate", ["p"])

    def score(goals: GoalIds) -> np.ndarray:
        return ranked[0][goals.given] if goals.forward else ranked[0][:, goals.given].T

    return FactsKB(*names, dict(zip(("train", "valid", "test"), np.split(facts, ends), strict=True))), score


def test_a_chance_that_does_not_grow_with_further_proofs_is_followed() -> None:
    kb, score = saturating(0, exact=False)
    found = calibrate([(score, FactsSplit.of(kb))], kb)
    assert found is not None
    assert found.bend.slopes[3] < found.bend.slopes[1]
    assert error(kb, score, found) < 0.05


def test_a_kb_whose_surest_answers_are_all_true_tells_how_many_facts_it_lacks() -> None:
    kb, score = saturating(1, exact=True)
    once, thrice = (calibrate([(score, FactsSplit.of(kb))], kb, missing) for missing in (1.0, 3.0))
    assert once is not None
    assert thrice is not None
    assert error(kb, score, once) < 0.05
    assert error(kb, score, thrice) < error(kb, score, once) + 0.02


def test_a_bend_rises_and_leaves_one_logit_where_it_is() -> None:
    bend = Bend(np.array([0.5, 2.0, 1.0, 0.1, 3.0, 1.0]))
    assert bend(np.array([FIXED])).tolist() == [FIXED]
    assert bend(np.array([[1.0, 2.0]]))[0] == pytest.approx([FIXED + 1.5 + 0.15, FIXED + 1.5 + 0.15 + 3.0])
    assert (np.diff(bend(np.linspace(-9, 9, 50))) > 0).all()
    assert len(KNOTS) + 1 == len(bend.slopes)


def test_a_calibration_of_an_earlier_version_is_straight() -> None:
    read = Calibration.read({"slopes": [2.0], "levels": [-1.0], "ece": None}, 1)
    assert read is not None
    assert read.logits(np.array([1.5]), np.array([0])).tolist() == [2.0]


def test_the_slopes_are_positive_even_where_the_order_is_wrong() -> None:
    kb, score = drawn(1)
    found = calibrate_on_unseen(lambda _: lambda goals: -score(goals), kb, FactsSplit.of(kb))
    assert found is not None
    assert (found.slopes > 0).all()


def test_a_predicate_with_few_facts_has_nearly_the_common_level() -> None:
    kb, score = drawn(2, levels=(-4.0, -4.0, -4.0))
    valid = kb.splits["valid"]
    few = np.concatenate([valid[valid[:, 1] < 2], valid[valid[:, 1] == 2][:1]])
    rare = FactsKB(kb.entities, kb.predicates, {"train": kb.splits["train"], "valid": few})
    found = calibrate_on_unseen(lambda _: score, rare, FactsSplit.of(rare))
    assert found is not None
    assert abs(found.levels[2] - found.levels[:2].mean()) < 1.0


def test_without_validation_facts_each_fact_is_scored_by_the_kb_without_its_fold() -> None:
    kb, score = drawn(3)
    small = FactsKB(kb.entities, kb.predicates, {"train": kb.splits["train"][:100]})
    seen: list[FactIds] = []

    def score_on(visible: FactsKB) -> Score:
        seen.append(visible.splits["train"])
        return score

    assert calibrate_on_unseen(score_on, small, FactsSplit.of(small)) is not None
    assert [len(facts) for facts in seen] == [80] * 5


def test_a_kb_that_leaves_no_candidate_has_no_calibration() -> None:
    names = Vocabulary("entity", ["a"]), Vocabulary("predicate", ["p"])
    kb = FactsKB(*names, {"train": np.zeros((1, 3), dtype=np.int64), "valid": np.zeros((0, 3), dtype=np.int64)})
    split = FactsSplit(kb.splits["train"], kb.splits["valid"])
    assert calibrate([(lambda goals: np.zeros((len(goals), 1)), split)], kb) is None


def test_a_calibration_is_stored_and_read_again() -> None:
    stored = Calibration(np.array([1.0, 2.0]), np.array([-1.0, 0.5]), 0.03, Bend(np.linspace(0.5, 2, 6)))
    read = Calibration.read(stored.values(), 2)
    assert read is not None
    assert read.values() == stored.values()
    assert Calibration.read(None, 2) is None


@pytest.mark.parametrize(
    "values",
    [
        {"slopes": [1.0], "levels": [0.0, 0.0], "ece": None},
        {"slopes": [1.0, -1.0], "levels": [0.0, 0.0], "ece": None},
        {"slopes": [1.0, 1.0], "levels": [0.0, float("nan")], "ece": None},
        {"slopes": [1.0, 1e308], "levels": [0.0, 0.0], "ece": None},
        {"slopes": [1.0, 1.0], "levels": [0.0, -1e10], "ece": None},
        {"slopes": [1.0, 1.0]},
        "nothing",
    ],
)
def test_a_calibration_that_cannot_be_is_refused(values: object) -> None:
    with pytest.raises(ArtifactError):
        Calibration.read(values, 2)
