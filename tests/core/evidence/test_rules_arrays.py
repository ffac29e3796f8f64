"""Logits by counts alone against the shares of all proofs, facts about themselves included."""

import numpy as np
import pytest

from ctp_core.base.edges import EdgeList
from ctp_core.evidence.rules_arrays import PADDING, TEMPLATES, RuleArrays, RuleTable
from ctp_core.evidence.rules_constants import ConstantRules
from ctp_core.rules import SIDES

NUM_ENTITIES, NUM_PREDICATES = 8, 2


def random_arrays(seed: int, *, long: bool = False) -> tuple[RuleArrays, EdgeList]:
    choose = np.random.default_rng(seed)
    columns = [choose.integers(0, high, 40) for high in (NUM_ENTITIES, NUM_PREDICATES, NUM_ENTITIES)]
    edges = EdgeList(np.unique(np.stack(columns, axis=1), axis=0), NUM_ENTITIES, NUM_PREDICATES)
    rules = {(choose.integers(2), t, *choose.integers(0, 4, 5)) for t in range(len(TEMPLATES)) for _ in range(6)}
    rows = np.array(sorted(tuple(map(int, rule)) for rule in rules))
    lengths = np.array([template.length for template in TEMPLATES])[rows[:, 1]]
    body = np.where(np.arange(5) < lengths[:, None], rows[:, 2:], PADDING)
    weights = choose.random(len(rows))
    table = RuleTable(rows[:, 0], rows[:, 1], body, weights, np.array([-3.0, -2.0]), np.array([0.5, 2.0]))
    return RuleArrays(table, ConstantRules(edges, long=long)), edges


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_totals_are_the_biases_the_priors_and_the_shares_of_all_proofs(seed: int, long: bool) -> None:
    arrays, edges = random_arrays(seed, long=long)
    loops = np.array([[entity, 1, entity] for entity in range(NUM_ENTITIES)])
    facts = np.concatenate([edges.facts, loops, [[0, 0, 5]]])
    expected = arrays.biases(facts) + arrays.priors(edges, facts)
    for paths in arrays.weigh(edges, facts):
        expected += np.bincount(paths.fact, paths.shares, len(facts))
    assert arrays.totals(edges, facts) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_every_step_of_a_proof_is_a_fact_of_the_kb(seed: int) -> None:
    arrays, edges = random_arrays(seed, long=True)
    stated = set(zip(edges.tail.tolist(), edges.atom.tolist(), edges.head.tolist(), strict=True))
    lengths = set()
    for paths in arrays.weigh(edges, edges.facts):
        lengths |= {(paths.template, paths.atoms.shape[1])} if len(paths.fact) else set()
        for atoms, stations in zip(paths.atoms.tolist(), paths.stations.tolist(), strict=True):
            assert set(zip(stations[:-1], atoms, stations[1:], strict=True)) <= stated
    assert {(side, 2) for side in SIDES} <= lengths


@pytest.mark.parametrize("forward", [True, False])
def test_the_known_answers_of_a_hub_are_scored_without_themselves(forward: bool) -> None:
    arrays, edges = random_arrays(5)
    for start in range(NUM_ENTITIES):
        reached = arrays.reach(edges, 1, start, forward=forward)
        facts = np.array([[start, 1, e] if forward else [e, 1, start] for e in range(NUM_ENTITIES)])
        assert reached == pytest.approx(arrays.totals(edges, facts))
