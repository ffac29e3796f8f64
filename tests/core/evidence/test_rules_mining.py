"""Mined bodies against all paths between the entities of facts."""

from collections import Counter

import numpy as np
import pytest

from ctp_core.base.edges import EdgeList, Paths
from ctp_core.evidence import rules_mining as mining
from ctp_core.evidence.config import RulesConfig
from ctp_core.evidence.proofs import own_paths
from ctp_core.evidence.rules_mining import longest, mine_chains
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.rules import Template

CONFIG = RulesConfig(rules_per_template=1000, min_support=1)


def provable(edges: EdgeList, facts: FactIds, paths: Paths) -> Paths:
    """The paths that do not use the fact they should prove."""
    kept = np.ones(len(paths.pair), dtype=bool)
    kept[own_paths(edges, facts, paths)] = False
    return Paths(*(column[kept] for column in paths))


def random_edges(seed: int, num_predicates: int = 2) -> EdgeList:
    choose = np.random.default_rng(seed)
    columns = [choose.integers(0, high, 20) for high in (8, num_predicates, 8)]
    return EdgeList(np.unique(np.stack(columns, axis=1), axis=0), 8, num_predicates)


@pytest.mark.parametrize("length", range(1, 5))
def test_every_body_that_joins_a_fact_is_found_and_none_by_the_fact_itself(length: int) -> None:
    edges = random_edges(length)
    facts = edges.facts[edges.facts[:, 1] == 0]
    paths = provable(edges, facts, edges.paths(facts[:, 0], facts[:, 2], Template(length)))
    joined = set(zip(paths.pair.tolist(), map(tuple, paths.atoms.tolist()), strict=True))
    support = Counter(body for _, body in joined)
    mined = [rule.body for rule in mine_chains(edges, facts, length, CONFIG)]
    assert set(mined) == set(support)
    supports = [support[body] for body in mined]
    assert supports == sorted(supports, reverse=True)


def test_a_rule_must_explain_as_many_facts_as_configured_and_only_the_best_are_kept() -> None:
    edges = random_edges(0)
    facts = edges.facts[edges.facts[:, 1] == 0]
    everything = mine_chains(edges, facts, 3, CONFIG)
    assert mine_chains(edges, facts, 3, RulesConfig(rules_per_template=4, min_support=1)) == everything[:4]
    assert len(mine_chains(edges, facts, 3, RulesConfig(rules_per_template=1000, min_support=3))) < len(everything)


def test_a_hub_is_not_walked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """a -p-> b beside a -q-> hub -q-> c -q-> b; the hub has ten more edges."""
    spokes = [[3, 1, entity] for entity in range(5, 15)]
    edges = EdgeList(np.array([[0, 0, 1], [0, 1, 3], [3, 1, 2], [2, 1, 1], *spokes]), 15, 2)
    goal = np.array([[0, 0, 1]])
    assert [rule.body for rule in mine_chains(edges, goal, 3, CONFIG)] == [(1, 1, 1)]
    monkeypatch.setattr(mining, "MAX_MINED_DEGREE", 11)
    assert mine_chains(edges, goal, 3, CONFIG) == []


def test_bodies_are_no_longer_than_one_number_holds() -> None:
    assert longest(random_edges(0), RulesConfig(max_length=5)) == 5
    assert longest(random_edges(0, num_predicates=40_000), RulesConfig(max_length=5)) == 3


def test_of_too_many_walks_a_part_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between four entities and ten predicates there are millions of chains of five."""
    pairs = [[s, p, o] for s in range(4) for p in range(10) for o in range(4) if s != o]
    edges = EdgeList(np.array(pairs), 4, 10)
    monkeypatch.setattr(mining, "MAX_MINED_WALKS", 5000)
    facts = edges.facts[edges.facts[:, 1] == 0]
    assert len(mining._walk(edges, facts, 3, 5000, back=False).fact) <= 5000
    assert 0 < len(mining._joining(edges, facts, 5, 5000)) <= 10_000
    assert len(mine_chains(edges, facts, 5, RulesConfig(rules_per_template=7, min_support=1))) == 7


def test_mining_looks_at_as_many_facts_as_the_walks_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = EdgeList(np.array([[number, 0, number + 100] for number in range(100)]), 200, 1)
    monkeypatch.setattr(mining, "MIN_MINED", 3)
    assert len(mining._walkable(edges, edges.facts, 2, most=20.5)) == 10  # one walk from either end of a fact
    assert len(mining._walkable(edges, edges.facts, 2, most=0)) == 3
