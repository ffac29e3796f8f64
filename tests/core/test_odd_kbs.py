"""Any KB: the default settings train on it or say why not, and no KB makes a training take all memory."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.symbols import Fact
from tests.core.odd_kbs import MANY_PREDICATES, ODD, Trainee, ring, trainee

pytestmark = pytest.mark.slow
METHODS = ("proofs", "rules", "complex", "hybrid")
MAX_MB = 1_024  # of which torch alone takes a third
MAX_MB_LARGE = 3_072


@pytest.fixture(scope="module")
def shared() -> Iterator[list[Trainee]]:
    """One process for all tests; another one where a test has ended it."""
    with trainee() as process:
        yield [process]


@pytest.fixture
def process(shared: list[Trainee]) -> Iterator[Trainee]:
    if not shared[0].alive:
        shared[0] = Trainee()
    yield shared[0]


def assert_trained_or_refused(process: Trainee, kb: FactsKB, method: str, max_mb: float, *, quick: bool) -> str:
    outcome = process.train(kb, method, max_mb, quick=quick)
    assert not outcome.fault
    return outcome.refused


@pytest.mark.parametrize("name", ODD)
def test_an_odd_kb_is_trained_on_with_the_default_preset(process: Trainee, name: str) -> None:
    assert assert_trained_or_refused(process, ODD[name], "proofs", MAX_MB, quick=False) == ""


# Many predicates take the longest, and the hybrid learns its rules as `proofs` does.
OTHERS = [(name, method) for name in ODD for method in METHODS[1:] if name != MANY_PREDICATES or method == "complex"]


@pytest.mark.parametrize(("name", "method"), OTHERS)
def test_an_odd_kb_is_trained_on_by_other_methods(process: Trainee, name: str, method: str) -> None:
    assert assert_trained_or_refused(process, ODD[name], method, MAX_MB, quick=True) == ""


@pytest.mark.timeout(900)  # a minute of CPU, which a busy machine stretches
def test_many_entities_with_two_facts_each_are_trained_on(process: Trainee) -> None:
    assert assert_trained_or_refused(process, ring(300_000), "proofs", MAX_MB_LARGE, quick=False) == ""


ENTITIES, PREDICATES = st.sampled_from("abcdefgh"), st.sampled_from("pqrs")
FACTS = st.lists(st.builds(Fact, ENTITIES, PREDICATES, ENTITIES), min_size=1, max_size=25)
KBS = st.builds(lambda train, valid: FactsKB.from_facts({"train": train, "valid": valid}), FACTS, FACTS)


@pytest.mark.parametrize("method", METHODS)
def test_a_random_kb_is_trained_on_or_refused_with_a_reason(process: Trainee, method: str) -> None:
    @settings(max_examples=4)
    @given(kb=KBS)
    def tried(kb: FactsKB) -> None:
        refused = assert_trained_or_refused(process, kb, method, MAX_MB, quick=True)
        assert not refused or " " in refused

    tried()


def test_a_kb_without_training_facts_is_refused_with_a_reason(process: Trainee) -> None:
    whole = ODD["one fact"]
    empty = FactsKB(whole.entities, whole.predicates, {"train": np.zeros((0, 3), dtype=np.int64)})
    for method in METHODS:
        said = assert_trained_or_refused(process, empty, method, MAX_MB, quick=True)
        assert said == "the KB has no training facts: there is nothing to learn from"
