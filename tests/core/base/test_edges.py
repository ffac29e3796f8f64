"""Paths and pushes on edge lists against products of dense tables."""

import numpy as np
import pytest
import torch

from ctp_core.base import counting
from ctp_core.base.counting import RuleCounter
from ctp_core.base.edges import EVERYTHING, EdgeList, atom_tables
from ctp_core.rules import UNARY, Template

NUM_ENTITIES, NUM_PREDICATES = 7, 3


def random_facts(seed: int) -> np.ndarray:
    choose = np.random.default_rng(seed)
    columns = [choose.integers(0, high, 40) for high in (NUM_ENTITIES, NUM_PREDICATES, NUM_ENTITIES)]
    return np.unique(np.stack(columns, axis=1), axis=0)


def tables_of(facts: np.ndarray) -> np.ndarray:
    return atom_tables(facts, NUM_ENTITIES, NUM_PREDICATES, torch.device("cpu")).double().numpy()


@pytest.mark.parametrize("length", [1, 2, 3])
def test_paths_are_all_paths_each_once(length: int) -> None:
    facts = random_facts(0)
    edges, tables = EdgeList(facts, NUM_ENTITIES, NUM_PREDICATES), tables_of(facts)
    subjects, objects = (grid.ravel() for grid in np.meshgrid(np.arange(NUM_ENTITIES), np.arange(NUM_ENTITIES)))
    paths = edges.paths(subjects, objects, Template(length))
    expected = np.linalg.matrix_power(tables.sum(0), length)
    counted = np.bincount(paths.pair, minlength=len(subjects))
    assert (counted == expected[subjects, objects]).all()
    rows = np.column_stack([paths.pair, paths.atoms, paths.stations])
    assert len(np.unique(rows, axis=0)) == len(rows)
    stations = paths.stations
    assert (stations[:, 0] == subjects[paths.pair]).all()
    assert (stations[:, -1] == objects[paths.pair]).all()
    for place in range(length):
        assert (tables[paths.atoms[:, place], stations[:, place], stations[:, place + 1]] == 1).all()


def test_a_push_is_a_product_of_mixed_tables() -> None:
    facts = random_facts(1)
    edges, tables = EdgeList(facts, NUM_ENTITIES, NUM_PREDICATES), tables_of(facts)
    places = np.random.default_rng(2).random((4, 2, 2 * NUM_PREDICATES))
    pushed = edges.push(3, places)
    for reformulator, (first, second) in enumerate(places):
        dense = np.tensordot(first, tables, 1) @ np.tensordot(second, tables, 1)
        assert pushed[reformulator] == pytest.approx(dense[3])
        assert edges.push(EVERYTHING, places)[reformulator] == pytest.approx(dense.sum(0))


def test_a_push_without_a_fact_is_that_of_a_kb_which_does_not_state_it() -> None:
    facts = np.unique(random_facts(1), axis=0)
    edges = EdgeList(facts, NUM_ENTITIES, NUM_PREDICATES)
    places = np.random.default_rng(2).random((4, 3, 2 * NUM_PREDICATES))
    for number, fact in enumerate(facts.tolist()):
        others = EdgeList(np.delete(facts, number, axis=0), NUM_ENTITIES, NUM_PREDICATES)
        pushed = edges.push(fact[0], places, without=edges.edges_of(*fact))
        assert pushed == pytest.approx(others.push(fact[0], places))
        assert not len(others.edges_of(*fact))


def test_support_counts_pairs_not_paths() -> None:
    # a -p-> b -q-> d and a -p-> c -q-> d: two paths, one pair; head r(a, d) holds; b -q-> d alone is no chain.
    a, b, c, d, e = range(5)
    p, q, r = range(3)
    facts = np.array([(a, p, b), (a, p, c), (b, q, d), (c, q, d), (a, r, d), (e, p, b)])
    counter = RuleCounter(EdgeList(facts, 5, 3))
    assert counter.count(r, Template(2), (p, q)) == (1, 2)
    assert counter.count(r, Template(2), (p, q + 3)) == (0, 0)


def test_a_kb_without_facts_has_no_paths() -> None:
    edges = EdgeList(np.zeros((0, 3), dtype=np.int64), 3, 1)
    assert len(edges.paths(np.array([0]), np.array([1]), Template(2)).pair) == 0


def test_a_rule_about_one_entity_does_not_count_the_fact_itself() -> None:
    # p(0,1), p(0,2), p(3,1): p(X,Y) :- p(X,Z) holds with another Z for both facts of 0, not for that of 3.
    facts = np.array([(0, 0, 1), (0, 0, 2), (3, 0, 1), (3, 1, 3)])
    counter = RuleCounter(EdgeList(facts, 4, 2))
    assert counter.count(0, UNARY[0], (0,)) == (2, 4 + 3)
    assert counter.count(0, UNARY[1], (0 + 2,)) == (2, 4 + 3)  # p(Z,Y): 1 is the object of two facts, 2 of one
    assert counter.count(0, UNARY[0], (1,)) == (1, 4)


def test_edges_of_one_entity_are_its_groundings() -> None:
    facts = random_facts(3)
    edges, tables = EdgeList(facts, NUM_ENTITIES, NUM_PREDICATES), tables_of(facts)
    subjects, objects = np.array([0, 1, 1]), np.array([2, 3, 1])
    for template, about in zip(UNARY, (subjects, objects), strict=True):
        paths = edges.paths(subjects, objects, template)
        assert (np.bincount(paths.pair, minlength=3) == tables.sum((0, 2))[about]).all()
        assert (paths.stations[:, 0] == about[paths.pair]).all()
    weights = np.random.default_rng(0).random((2, 2 * NUM_PREDICATES))
    assert edges.degrees(weights) == pytest.approx(weights @ tables.sum(2))


def test_the_counts_of_a_large_kb_are_estimates_from_some_of_the_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 400 entities each has one p and every second the q that the rule r(X,Y) :- p(X,Z), q(Z,Y) promises."""
    p, q, r, size = 0, 1, 2, 400
    begin = np.arange(size)
    facts = [
        np.column_stack([begin, np.full(size, p), begin + size]),
        np.column_stack([begin + size, begin * 0 + q, begin]),
    ]
    facts += [np.column_stack([begin, begin * 0 + r, begin])[::2]]
    counter = RuleCounter(EdgeList(np.concatenate(facts), 2 * size, 3))
    assert counter.count(r, Template(2), (p, q)) == (200, 400)
    monkeypatch.setattr(counting, "COUNTED_FROM", 100)
    support, pairs = counter.count(r, Template(2), (p, q))
    assert pairs == 400
    assert support % 4 == 0  # each counted stands for four
    assert 140 <= support <= 260
    assert counter.count(r, Template(2), (p, q)) == (support, pairs)
