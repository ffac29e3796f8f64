"""Chains by sparse products and by joined walks, against paths listed one by one."""

import itertools
from collections import Counter

import numpy as np
import pytest

from ctp_core.base.edges import EdgeList
from ctp_core.evidence.body_tree import BodyTree, JoinedBodies, Walks, turned
from ctp_core.evidence.rules_chains import ChainRows, Hidden
from tests.variants import slow_but

NUM_ENTITIES, NUM_PREDICATES = 7, 2
BODIES = [body for length in range(1, 6) for body in itertools.product(range(2 * NUM_PREDICATES), repeat=length)][::7]


def random_edges(seed: int) -> EdgeList:
    choose = np.random.default_rng(seed)
    columns = [choose.integers(0, high, 16) for high in (NUM_ENTITIES, NUM_PREDICATES, NUM_ENTITIES)]
    return EdgeList(np.unique(np.stack(columns, axis=1), axis=0), NUM_ENTITIES, NUM_PREDICATES)


def without(edges: EdgeList, fact: list[int]) -> EdgeList:
    return EdgeList(edges.facts[(edges.facts != fact).any(1)], NUM_ENTITIES, NUM_PREDICATES)


def walks(edges: EdgeList, start: int, body: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All walks along a body, by hand."""
    found = [(start,)]
    for atom in body:
        found = [(*walk, int(head)) for walk in found for head in edges.neighbours(walk[-1], atom)]
    return found


@pytest.mark.parametrize("seed", slow_but([0], range(3)))
def test_counts_are_the_walks_along_a_body(seed: int) -> None:
    edges, starts = random_edges(seed), np.array([0, 3, 3, 6])
    rows = ChainRows(edges, starts)
    for body in BODIES:
        counts = rows.counts(body).toarray()
        for question, start in enumerate(starts.tolist()):
            ends = Counter(walk[-1] for walk in walks(edges, start, body))
            assert counts[question].tolist() == [ends[entity] for entity in range(NUM_ENTITIES)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", slow_but([0], range(3)))
@pytest.mark.parametrize("forward", [True, False])
def test_a_hidden_fact_is_used_by_no_walk_in_either_direction(seed: int, forward: bool) -> None:
    edges = random_edges(seed)
    facts = edges.facts[edges.facts[:, 1] == 1]
    starts, ends = (facts[:, 0], facts[:, 2]) if forward else (facts[:, 2], facts[:, 0])
    rows = ChainRows(edges, starts, Hidden(1 if forward else 1 + NUM_PREDICATES, ends))
    for body in BODIES:
        counts = rows.counts(body).toarray()
        for question, fact in enumerate(facts.tolist()):
            left = without(edges, fact)
            hidden = Counter(walk[-1] for walk in walks(left, int(starts[question]), body))
            assert counts[question].tolist() == [hidden[entity] for entity in range(NUM_ENTITIES)]


def test_the_widest_step_is_told_without_walking() -> None:
    edges, starts = random_edges(4), np.array([1, 2, 5])
    for body in BODIES:
        sizes = [
            sum(len(walks(edges, start, body[:steps])) for start in starts.tolist())
            for steps in range(1, len(body) + 1)
        ]
        assert ChainRows(edges, starts).widest(body) == pytest.approx(max(sizes) / 3)


@pytest.mark.parametrize("seed", slow_but([0], range(3)))
def test_joined_walks_are_the_paths_between_the_entities(seed: int) -> None:
    edges = random_edges(seed)
    many = np.concatenate([edges.facts[:4], [[0, 0, 5], [2, 1, 2]]])
    hub = np.array([[1, 0, entity] for entity in range(NUM_ENTITIES)])
    facts = many if seed else np.concatenate([hub, edges.facts[edges.facts[:, 0] == 1]])
    found = Counter(
        (body, pair, tuple(stations))
        for part in JoinedBodies(BODIES, NUM_PREDICATES).paths(edges, facts[:, 0], facts[:, 2])
        for body, pair, stations in zip(*(column.tolist() for column in part), strict=True)
    )
    assert found == Counter(
        (index, pair, walk)
        for index, body in enumerate(BODIES)
        for pair, fact in enumerate(facts.tolist())
        for walk in walks(edges, fact[0], body)
        if walk[-1] == fact[2]
    )


def test_a_turned_body_leads_back() -> None:
    edges = random_edges(1)
    for body in BODIES:
        there = {(walk[0], walk[-1]) for start in range(NUM_ENTITIES) for walk in walks(edges, start, body)}
        way_back = turned(body, NUM_PREDICATES)
        back = {(walk[-1], walk[0]) for start in range(NUM_ENTITIES) for walk in walks(edges, start, way_back)}
        assert there == back


@pytest.mark.parametrize("hub_is_object", [True, False])
def test_facts_of_a_hub_are_joined_by_a_few_walks_for_each(
    monkeypatch: pytest.MonkeyPatch, hub_is_object: bool
) -> None:
    """The longer half of a body was walked from each of the many ends, through the hub to all others."""
    num_spokes, hub, sizes = 100, 100, list[int]()
    spokes = np.arange(num_spokes)
    facts = np.concatenate(
        [np.column_stack([spokes, np.full_like(spokes, p), np.full_like(spokes, hub)]) for p in (0, 1)]
    )
    edges = EdgeList(facts, num_spokes + 1, NUM_PREDICATES)
    walked = BodyTree.walks

    def counted(tree: BodyTree, edges: EdgeList, starts: np.ndarray) -> list[Walks]:
        found = walked(tree, edges, starts)
        sizes.extend(len(one.start) for one in found)
        return found

    monkeypatch.setattr(BodyTree, "walks", counted)
    body, ends = (0, NUM_PREDICATES, 1), (spokes, np.full_like(spokes, hub))
    if not hub_is_object:
        body, ends = turned(body, NUM_PREDICATES), ends[::-1]
    found = sum(len(part.pair) for part in JoinedBodies([body], NUM_PREDICATES).paths(edges, *ends))
    assert found == num_spokes**2
    assert max(sizes) <= num_spokes
