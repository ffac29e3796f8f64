"""Rules with constants against counts fact by fact."""

import gc
import math
import weakref
from itertools import product

import numpy as np
import pytest

from ctp_core.base.edges import EdgeList
from ctp_core.confidence import PESSIMISM
from ctp_core.evidence import rules_constants, rules_hubs
from ctp_core.evidence.config import MAX_MIDDLE_DEGREE
from ctp_core.evidence.rules_constants import MIN_CONFIDENCE, MIN_SUPPORT, ConstantRules
from ctp_core.evidence.rules_features import ANY, EntityFeatures, features_of
from ctp_core.rules import SIDES, Template

NUM_ENTITIES, NUM_PREDICATES = 9, 2


def random_edges(seed: int, extra: int = 0) -> EdgeList:
    choose = np.random.default_rng(seed)
    columns = [choose.integers(0, high, 60) for high in (NUM_ENTITIES, NUM_PREDICATES, NUM_ENTITIES)]
    facts = np.unique(np.stack(columns, axis=1), axis=0)
    new = [(NUM_ENTITIES + i, i % NUM_PREDICATES, i) for i in range(extra)]
    return EdgeList(np.concatenate([facts, np.array(new, dtype=np.int64).reshape(-1, 3)]), NUM_ENTITIES + extra, 2)


Said = tuple[tuple[int, ...], int]


def said_of(edges: EdgeList, entity: int, *, long: bool = False) -> set[Said]:
    """(atoms, other entity); `long` also what is said through another entity."""
    own = edges.tail == entity
    pairs = set(zip(edges.atom[own].tolist(), edges.head[own].tolist(), strict=True))
    said: set[Said] = {((atom,), other) for atom, other in pairs} | {((atom,), ANY) for atom, _ in pairs}
    for atom, between in pairs if long else ():
        further = said_of(edges, between)
        said |= {((atom, *atoms), end) for atoms, end in further if len({entity, between, end}) == 3 and end != ANY}
    return said


def best_by_hand(
    edges: EdgeList, view: EdgeList, fact: list[int], side: Template, *, masked: bool, long: bool = False
) -> float:
    """The strongest rule about one entity of the fact, its other entity the constant."""
    subject, predicate, object_ = fact
    about, constant = (subject, object_) if side.about_subject else (object_, subject)
    towards = predicate if side.about_subject else predicate + NUM_PREDICATES
    everything = [said_of(edges, entity, long=long) for entity in range(edges.num_entities)]
    best = 0.0
    for atoms, other in said_of(view, about, long=long):
        if len(atoms) == 1 and atoms[0] % NUM_PREDICATES == predicate and other in (constant, ANY):
            continue
        if len(atoms) == 2 and atoms[0] == towards:
            continue
        holders = [said for said in everything if (atoms, other) in said]
        support = sum(((towards,), constant) in said for said in holders) - masked
        confidence = support / (len(holders) + PESSIMISM)
        if support >= MIN_SUPPORT and confidence >= MIN_CONFIDENCE:
            best = max(best, -math.log(1 - confidence))
    return best


@pytest.mark.slow
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("extra", [0, 3])
@pytest.mark.parametrize("forward", [True, False])
def test_rows_hold_the_best_rule_of_each_side(forward: bool, extra: int, long: bool) -> None:
    edges, view = random_edges(0), random_edges(0, extra)
    rules, features = ConstantRules(edges, long=long), EntityFeatures(view, long=long)
    for start in (0, 4, NUM_ENTITIES + extra - 1):
        for predicate in range(NUM_PREDICATES):
            row = rules.row(features, predicate, start, forward=forward)
            for answer in range(view.num_entities):
                fact = [start, predicate, answer] if forward else [answer, predicate, start]
                sides = dict(zip(SIDES, (fact[2], fact[0]), strict=True))
                expected = sum(
                    best_by_hand(edges, view, fact, side, masked=False, long=long)
                    for side, constant in sides.items()
                    if constant < NUM_ENTITIES
                )
                assert row[answer] == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("long", [False, True])
def test_a_known_fact_does_not_support_its_own_proof(long: bool) -> None:
    edges = random_edges(1)
    rules, facts = ConstantRules(edges, long=long), edges.facts
    for side in SIDES:
        found = rules.strongest(rules.features, facts, np.ones(len(facts), dtype=bool), side)
        for row, fact in enumerate(facts.tolist()):
            assert found.evidence[row] == pytest.approx(best_by_hand(edges, edges, fact, side, masked=True, long=long))


@pytest.mark.parametrize("rare", [0, 1e9])
@pytest.mark.parametrize("most_cells", [0, 2e6])
def test_supports_are_the_same_however_they_are_counted(
    most_cells: float, rare: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules_constants, "MOST_CELLS", most_cells)
    monkeypatch.setattr(rules_constants, "RARE", rare)
    edges = random_edges(0)
    rules = ConstantRules(edges)
    stated = edges.tables[0]
    every, constants = np.arange(len(rules.features.keys)), np.arange(NUM_ENTITIES)
    expected = (rules.features.with_feature @ stated.T).toarray()
    pairs = (np.repeat(constants, np.diff(stated.indptr)), stated.indices)
    for features in (every, every[::7], every[:0]):
        for found in (
            rules._supports_with(features, 0, constants),
            rules._supports_among(features, stated, constants, pairs),
        ):
            counts = np.zeros((len(features), NUM_ENTITIES))
            counts[found[1], found[0]] = found[2]
            assert (counts == expected[features]).all()


def test_a_hub_is_no_middle_of_a_body() -> None:
    facts = np.array([(0, 0, 1), (1, 1, 2), (3, 0, 1), *((1, 0, 4 + end) for end in range(MAX_MIDDLE_DEGREE - 3))])
    features = EntityFeatures(EdgeList(facts, 4 + MAX_MIDDLE_DEGREE, 2), long=True)
    assert features.long[features.of(0)].any()
    hub = EntityFeatures(
        EdgeList(np.concatenate([facts, [(1, 0, 3 + MAX_MIDDLE_DEGREE)]]), 4 + MAX_MIDDLE_DEGREE, 2), long=True
    )
    assert not hub.long[hub.of(0)].any()


def test_what_only_a_question_says_is_not_taken_off_the_support_of_rules() -> None:
    """speaks(X, c) :- lives(X, d) holds of 0, 1 and 2; that 3 speaks and 4 lives is said by the question."""
    lives, speaks, town, language = 0, 1, 5, 6
    stated = [(who, lives, town) for who in range(4)] + [(who, speaks, language) for who in (0, 1, 2, 4)]
    extra = [(3, speaks, language), (4, lives, town)]
    home, view = EdgeList(np.array(stated), 7, 2), EdgeList(np.array(stated + extra), 7, 2)
    rules, facts = ConstantRules(home), np.array([(3, speaks, language), (4, speaks, language), (0, speaks, language)])
    found = rules.strongest(features_of(view), facts, rules.counted(facts), SIDES[0]).evidence
    for evidence, support in zip(found.tolist(), (3, 3, 2), strict=True):
        assert evidence == pytest.approx(-math.log(1 - support / (4 + PESSIMISM)))


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 2e6])
def test_rules_counted_at_once_and_for_one_entity_say_the_same(at_once: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules_hubs, "AT_ONCE", at_once)
    kept, counted = (ConstantRules(random_edges(3), long=True) for _ in range(2))
    for predicate, start, forward in product(range(NUM_PREDICATES), range(NUM_ENTITIES), (True, False)):
        kept.keep_table(predicate, SIDES[0 if forward else 1])
        rows = [rules.row(rules.features, predicate, start, forward=forward) for rules in (kept, counted)]
        np.testing.assert_array_equal(*rows)
    assert len(kept._tables) == 2 * NUM_PREDICATES
    assert not counted._tables


def test_of_a_hub_the_features_of_least_work_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules_hubs, "MAX_LOOKED_AT", 12)
    rules, fewer = ConstantRules(random_edges(3)), 0
    for predicate, start, side in product(range(NUM_PREDICATES), range(NUM_ENTITIES), SIDES):
        features = rules._considered(rules.features, predicate, side, start)
        work = rules._work(predicate, side, rules.features.with_feature)
        left_out = np.setdiff1d(rules.features.of(start), features)
        assert work[features].sum() <= 12
        assert work[left_out].min(initial=np.inf) > work[features].max(initial=0)
        fewer += len(left_out)
    assert fewer


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("extra", [0, 3])
def test_evidence_at_a_hub_is_the_same_whatever_is_asked_for(
    extra: int, long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the objects of a subject, for the subjects of an object, or for the proofs of facts, few or many at once."""
    monkeypatch.setattr(rules_hubs, "MAX_LOOKED_AT", 12)
    rules, view = ConstantRules(random_edges(3), long=long), features_of(random_edges(3, extra), long=long)
    size = NUM_ENTITIES + extra
    for predicate in range(NUM_PREDICATES):
        asked = np.array([(subject, predicate, object_) for subject, object_ in product(range(size), repeat=2)])
        by_subject, by_object = (
            np.stack([rules.row(view, predicate, start, forward=forward) for start in range(size)])
            for forward in (True, False)
        )
        np.testing.assert_allclose(by_subject, by_object.T, atol=1e-6)
        for facts in (asked, asked[asked[:, 0] == 4], asked[asked[:, 2] == 4]):
            known = np.zeros(len(facts), dtype=bool)
            found = sum(rules.strongest(view, facts, known, side).evidence for side in SIDES)
            np.testing.assert_allclose(found, by_subject[facts[:, 0], facts[:, 2]], atol=1e-6)


def test_few_tables_are_kept_and_no_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = np.array([(who, predicate, 4 + who // 3) for predicate in range(6) for who in range(4)])
    rules = ConstantRules(EdgeList(facts, 6, 6))
    rules.keep_table(0, SIDES[0])
    monkeypatch.setattr(rules_constants, "KEPT", 3 * rules._tables[0, SIDES[0]].nnz)
    for predicate in range(6):
        rules.keep_table(predicate, SIDES[0])
    assert list(rules._tables) == [(predicate, SIDES[0]) for predicate in (3, 4, 5)]
    monkeypatch.setattr(rules_constants, "MAX_WORK", 1)
    rules.keep_table(0, SIDES[0])
    assert (0, SIDES[0]) not in rules._tables
    gone = weakref.ref(rules)
    gc.disable()
    try:
        del rules
        assert gone() is None  # no cycle: the memory of a model that is dropped is free at once
    finally:
        gc.enable()
