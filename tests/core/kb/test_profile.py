"""What is counted of a KB, so that presets and forecasts need not read it again."""

import time

import numpy as np

from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import FactsKB, Graph
from ctp_core.kb.profile import COUNTED, Profile
from ctp_core.kb.splits import LEAST_VALID
from ctp_core.symbols import Fact, Vocabulary

STAR = [Fact("hub", "p", "a"), Fact("hub", "p", "b"), Fact("c", "q", "hub")]


def test_the_counts_of_a_small_kb_are_those_by_hand() -> None:
    profile = Profile.of(FactsKB.from_facts({"train": STAR, "valid": [Fact("a", "r", "b")]}))
    assert (profile.num_facts, profile.num_entities, profile.num_predicates, profile.valid_facts) == (3, 4, 3, 1)
    assert profile.num_paths == 3**2 + 1 + 1 + 1  # the hub has three facts, the others one each
    assert profile.num_questions == 2 + 3  # (hub p ?), (c q ?); (? p a), (? p b), (? q hub)
    assert profile.used_predicates == 2


def test_what_is_stored_makes_the_same_profile_again() -> None:
    profile = Profile.of(FactsKB.from_facts({"train": STAR}))
    row = profile.model_dump(exclude=set(COUNTED))
    assert Profile(**row, **profile.counted) == profile
    assert Profile.is_counted(profile.counted)
    assert Profile(**row, **profile.counted, max_degree=3) == profile, "as an earlier version counted"
    assert Profile.is_counted(profile.counted | {"max_degree": 3})
    assert not Profile.is_counted(None)
    assert not Profile.is_counted({"num_paths": 3})


def test_a_kb_that_nobody_has_counted_is_taken_to_be_even() -> None:
    profile = Profile(kind="facts", num_facts=10, num_entities=5, num_predicates=1)
    assert (profile.paths, profile.questions) == (80, 20)


def test_a_kb_without_training_facts_has_a_profile_too() -> None:
    profile = Profile.of(FactsKB.from_facts({"test": STAR}))
    assert (profile.num_facts, profile.num_paths, profile.used_predicates) == (0, 0, 0)


def test_graphs_are_counted() -> None:
    graph = Graph((Fact("a", "p", "b"), Fact("b", "p", "c")), "a", "c", "q")
    profile = Profile.of(graphs_kb({"train": [graph, graph]}))
    assert (profile.num_graphs, profile.num_facts, profile.max_length) == (2, 4, 2)


def test_a_million_facts_are_counted_in_seconds() -> None:
    draw = np.random.default_rng(0)
    ids = np.stack([draw.integers(size, size=1_000_000) for size in (100_000, 50, 100_000)], axis=1)
    entities = Vocabulary("entity", (f"e{i}" for i in range(100_000)))
    kb = FactsKB(entities, Vocabulary("predicate", (f"p{i}" for i in range(50))), {"train": ids})
    started = time.process_time()
    profile = Profile.of(kb)
    assert time.process_time() - started < 5
    assert profile.num_facts == 1_000_000


def test_settings_can_be_measured_on_validation_facts_or_on_facts_that_can_be_spared() -> None:
    few = Profile(kind="facts", num_facts=10, num_entities=5, num_predicates=1)
    assert not few.measurable
    assert not few.model_copy(update={"valid_facts": LEAST_VALID - 1}).measurable
    assert few.model_copy(update={"valid_facts": LEAST_VALID}).measurable
    assert few.model_copy(update={"num_facts": 500}).measurable
