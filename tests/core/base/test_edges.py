"""Paths and pushes on edge lists against products of dense tables."""

import numpy as np
import pytest
import torch

from ctp_core.base import weighed_edges
from ctp_core.base.edges import EdgeList, atom_tables
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


@pytest.mark.parametrize("dense", [0, 1e9])
def test_a_push_is_a_product_of_mixed_tables(dense: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighed_edges, "DENSE", dense)
    monkeypatch.setattr(weighed_edges, "SMALL", 0)
    facts = random_facts(1)
    edges, tables = EdgeList(facts, NUM_ENTITIES, NUM_PREDICATES), tables_of(facts)
    places = np.random.default_rng(2).random((4, 2, 2 * NUM_PREDICATES))
    [pushed], [of_all] = edges.push(edges.at(np.array([3])), places), edges.push(np.ones((1, NUM_ENTITIES)), places)
    for reformulator, (first, second) in enumerate(places):
        product = np.tensordot(first, tables, 1) @ np.tensordot(second, tables, 1)
        assert pushed[reformulator] == pytest.approx(product[3])
        assert of_all[reformulator] == pytest.approx(product.sum(0))


def test_a_push_without_a_fact_is_that_of_a_kb_which_does_not_state_it() -> None:
    facts = np.unique(random_facts(1), axis=0)
    edges = EdgeList(facts, NUM_ENTITIES, NUM_PREDICATES)
    places = np.random.default_rng(2).random((4, 3, 2 * NUM_PREDICATES))
    pushed = edges.push(edges.at(facts[:, 0]), places, facts)
    for number, fact in enumerate(facts):
        others = EdgeList(np.delete(facts, number, axis=0), NUM_ENTITIES, NUM_PREDICATES)
        without = others.push(others.at(fact[:1]), places)
        assert pushed[number] == pytest.approx(without[0])
        assert others.push(others.at(fact[:1]), places, fact[None]) == pytest.approx(without)


@pytest.mark.parametrize("small", [0, 1 << 16])
def test_few_weighed_tables_are_kept_and_pushes_are_the_same(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    places = np.random.default_rng(2).random((5, 2, 3, 2 * NUM_PREDICATES))
    monkeypatch.setattr(weighed_edges, "SMALL", small)
    edges = EdgeList(random_facts(1), NUM_ENTITIES, NUM_PREDICATES)
    expected = [edges.push(edges.at(np.array([3])), one) for one in places]
    monkeypatch.setattr(weighed_edges, "KEPT_BYTES", 1)
    edges = EdgeList(edges.facts, NUM_ENTITIES, NUM_PREDICATES)
    for one, before in zip(places, expected, strict=True):
        assert edges.push(edges.at(np.array([3])), one) == pytest.approx(before)
    assert len(edges._weighed._kept) == 1


def test_a_kb_without_facts_has_no_paths() -> None:
    edges = EdgeList(np.zeros((0, 3), dtype=np.int64), 3, 1)
    assert len(edges.paths(np.array([0]), np.array([1]), Template(2)).pair) == 0


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


def test_paths_are_too_many_whichever_end_leads_to_many_walks() -> None:
    """Two steps from either end: one end leads through a hub, or both do and meet in it."""
    hub, num_spokes = 0, 20
    facts = np.array([[spoke, 0, hub] for spoke in range(1, num_spokes + 1)])
    edges = EdgeList(facts, num_spokes + 2, 1)
    everything = np.ones((4, 2), dtype=bool)
    spoke, alone = np.array([1]), np.array([num_spokes + 1])
    assert edges.paths_along_fit(alone, alone, everything, 0)
    assert not edges.paths_along_fit(spoke, alone, everything, num_spokes - 1)
    assert not edges.paths_along_fit(alone, spoke, everything, num_spokes - 1)
    assert edges.paths_along_fit(spoke, alone, everything, num_spokes)
    assert edges.paths_along_fit(spoke, spoke, everything, num_spokes), "they meet at each spoke once"
