"""A KB and a question state each fact once; nothing behind them looks for duplicates again."""

import numpy as np
import pytest

from ctp_core.base.facts_model import FactsView, facts_about
from ctp_core.errors import TooLarge
from ctp_core.kb.facts_builder import FactsBuilder, KbLimits
from ctp_core.kb.knowledge_base import SPLITS, FactSet, FactsKB, distinct_facts, fact_keys, sorted_facts
from ctp_core.kb.splits import FactsSplit
from ctp_core.symbols import Fact

NAMES = ("c", "q", "a"), ("a", "p", "b"), ("c", "q", "a"), ("a", "p", "b"), ("a", "p", "c")
FACTS = [Fact(*names) for names in NAMES]


def built() -> FactsKB:
    builder = FactsBuilder(KbLimits())
    for split in SPLITS:
        builder.add(split, ((line, *fact) for line, fact in enumerate(FACTS)), split)
    return builder.build().kb


@pytest.mark.parametrize("kb", [built(), FactsKB.from_facts(dict.fromkeys(SPLITS, FACTS))], ids=["builder", "facts"])
def test_every_split_of_a_kb_states_a_fact_once_in_the_order_of_the_file(kb: FactsKB) -> None:
    for split in SPLITS:
        assert kb.facts(split) == [FACTS[0], FACTS[1], FACTS[4]]
    for split, ids in facts_about(kb, kb.predicates).splits.items():
        assert np.array_equal(ids, kb.splits[split])


def test_a_question_that_repeats_itself_or_the_kb_adds_nothing() -> None:
    kb = FactsKB.from_facts({"train": FACTS})
    new = Fact("new", "p", "a")
    view = FactsView.of(kb, (new, FACTS[0], new))
    assert [view.fact(*row) for row in view.facts.tolist()] == [*kb.facts("train"), new]
    assert len(view.edges.tail) == 2 * 4


def test_what_stands_on_a_kb_sorts_its_facts_and_drops_none() -> None:
    kb = FactsKB.from_facts({"train": FACTS})
    expected = np.unique(kb.splits["train"], axis=0)
    assert len(expected) == len(kb.splits["train"])
    assert np.array_equal(FactsSplit.of(kb).train, expected)
    assert np.array_equal(FactsView.of(kb).edges.facts, expected)


def test_keys_are_distinct_and_in_the_order_of_facts_up_to_the_largest_kb() -> None:
    most = KbLimits().max_symbols
    sizes = most, (2**63 - 1) // most**2
    facts = np.array([(0, 0, 0), (0, 0, most - 1), (0, 1, 0), (1, 0, 0), (most - 1, sizes[1] - 1, most - 1)])
    keys = fact_keys(facts, *sizes)
    assert (np.diff(keys) > 0).all()
    assert np.array_equal(sorted_facts(facts[::-1], *sizes), facts)
    assert np.array_equal(distinct_facts(facts[[3, 1, 3]], *sizes), facts[[3, 1]])
    assert FactSet(facts[:2], *sizes).states(facts).tolist() == [True, True, False, False, False]
    assert not FactSet(facts[:0], *sizes).states(facts).any()


def test_so_many_symbols_that_facts_cannot_be_told_apart_are_refused() -> None:
    facts = np.array([[0, 0, 1]])
    assert fact_keys(facts, 10_000_000, 92_233).tolist() == [1]
    with pytest.raises(TooLarge, match="at most 92,233 predicates, not 92,234"):
        fact_keys(facts, 10_000_000, 92_234)


def test_facts_without_duplicates_stay_as_they_are() -> None:
    facts = np.array([[2, 0, 1], [0, 0, 1]])
    assert distinct_facts(facts, 3, 1) is facts
