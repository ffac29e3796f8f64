"""Ranks worked out by hand, and settings chosen by them."""

import numpy as np
import pytest

from ctp_core.base.evaluation import (
    KnownFilter,
    rank_facts,
    ranking_metrics,
    realistic_ranks,
)


def test_ties_get_the_mean_rank() -> None:
    scores = np.array([[3.0, 2.0, 2.0, 2.0, 1.0]])
    known = np.zeros((1, 5), dtype=bool)
    assert realistic_ranks(scores, np.array([1]), known).tolist() == [3.0]
    assert realistic_ranks(scores, np.array([0]), known).tolist() == [1.0]
    assert realistic_ranks(np.zeros((1, 5)), np.array([4]), known).tolist() == [3.0]


def test_known_facts_are_filtered_but_never_the_true_one() -> None:
    scores = np.array([[3.0, 2.0, 1.0]])
    known = np.array([[True, False, True]])
    assert realistic_ranks(scores, np.array([2]), known).tolist() == [2.0]


def test_both_directions_are_ranked_each_with_its_own_filter() -> None:
    # p(0,1), p(0,2), p(3,1): asking p(0,?) for 1 must not count 2, asking p(?,1) for 0 must not count 3.
    facts = np.array([(0, 0, 1), (0, 0, 2), (3, 0, 1)])
    filters = (KnownFilter([facts], 4, 1, subjects=False), KnownFilter([facts], 4, 1, subjects=True))
    scores = np.array([[0.0, 1.0, 2.0, 3.0], [0.0] * 4, [0.0] * 4, [0.0, 5.0, 0.0, 0.0]])
    ranks = rank_facts(facts[:1], lambda g: scores[g.given] if g.forward else scores[:, g.given].T, filters)
    assert ranks.tolist() == [2.0, 1.0]


def test_metrics_are_means_over_questions() -> None:
    metrics = ranking_metrics(np.array([1.0, 2.0, 4.0, 20.0]))
    assert metrics["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 4 + 1 / 20) / 4)
    assert [metrics[f"hits@{k}"] for k in (1, 3, 10)] == [0.25, 0.5, 0.75]
    assert ranking_metrics(np.zeros(0)) == {}


def test_a_score_that_is_no_number_never_ranks_well() -> None:
    known = np.zeros((2, 4), dtype=bool)
    scores = np.array([[np.nan] * 4, [1.0, np.nan, 0.0, 0.0]])
    assert realistic_ranks(scores, np.array([2, 0]), known).tolist() == [4.0, 2.0]
