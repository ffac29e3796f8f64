"""A setting for each predicate, shrunk towards the one that suits all."""

import numpy as np

from ctp_core.base.shrinkage import shrunk_choices


def ranks_of(gains: dict[int, float], predicates: np.ndarray, noise: float = 0.0) -> np.ndarray:
    """Two settings and both ways: by setting 1, facts of a predicate gain or lose as given; the others lose a tenth."""
    choose = np.random.default_rng(0)
    gain = np.array([gains.get(predicate, -0.1) for predicate in predicates.tolist()])
    found = np.stack([np.full(len(predicates), 0.5), 0.5 + gain])
    return np.clip(found[:, None] + noise * choose.normal(size=(2, 2, len(predicates))), 0, 1)


def test_a_predicate_whose_facts_say_so_clearly_gets_its_own_setting() -> None:
    predicates = np.repeat([0, 1, 2], [300, 100, 300])
    assert shrunk_choices(ranks_of({1: 0.3}, predicates, noise=0.1), predicates, 3).tolist() == [0, 1, 0]


def test_a_clear_case_needs_few_facts() -> None:
    predicates = np.repeat([0, 1, 2, 3], [300, 12, 12, 12])
    found = ranks_of({1: 0.4, 2: 0.4}, predicates, noise=0.05)
    assert shrunk_choices(found, predicates, 4).tolist() == [0, 1, 1, 0]


def test_noise_chooses_no_setting_of_its_own() -> None:
    predicates = np.repeat(np.arange(60), 5)
    choose = np.random.default_rng(1)
    ranks = choose.random((8, 2, len(predicates)))
    ranks[3] += 0.05
    chosen = shrunk_choices(ranks, predicates, 60)
    unseen = choose.random((8, 60)) * 0
    unseen[3] += 0.05
    assert unseen[chosen, np.arange(60)].mean() >= 0.04


def test_a_predicate_without_facts_takes_the_common_setting() -> None:
    predicates = np.repeat([0, 1], [50, 50])
    ranks = ranks_of({0: 0.3, 1: 0.3}, predicates)
    assert shrunk_choices(ranks, predicates, 4)[2:].tolist() == [1, 1]
    assert shrunk_choices(ranks * 0 + 0.5, predicates, 4, common=1).tolist() == [1] * 4


def test_on_the_given_facts_the_choice_is_never_worse_than_the_common_setting() -> None:
    for seed in range(20):
        choose = np.random.default_rng(seed)
        predicates = choose.integers(0, 10, 80)
        ranks = choose.random((6, 2, 80)) ** 2
        common = int(choose.integers(0, 6))
        chosen = shrunk_choices(ranks, predicates, 10, common)
        table = ranks.mean(1)
        assert table[chosen[predicates], np.arange(80)].mean() >= table[common].mean() - 1e-9


def test_one_fact_is_enough_to_choose() -> None:
    assert shrunk_choices(np.full((3, 2, 1), 0.5), np.array([0]), 1).tolist() == [0]
