"""Facts and graphs that are held out of training."""

import numpy as np
import pytest
from pydantic import ValidationError

from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.errors import DataError
from ctp_core.kb.facts_builder import BuiltKB, FactsBuilder, KbLimits
from ctp_core.kb.graphs_builder import GraphsBuilder
from ctp_core.kb.holdout import Holdout, hold_out
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.symbols import Fact

BOTH = Holdout(valid=0.05, test=0.1)


def facts(number: int) -> FactsKB:
    return FactsKB.from_facts({"train": [Fact(f"a{i}", "p", f"b{i % 7}") for i in range(number)]})


def test_every_fact_is_in_one_split_and_the_same_each_time() -> None:
    kb = facts(100)
    found, again = hold_out(kb, BOTH), hold_out(kb, BOTH)
    assert {split: len(rows) for split, rows in found.splits.items()} == {"train": 85, "valid": 5, "test": 10}
    together = np.concatenate(list(found.splits.values()))
    assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, kb.splits["train"].tolist()))
    assert all((found.splits[split] == again.splits[split]).all() for split in found.splits)


def test_a_fact_that_a_file_repeats_is_not_trained_on_and_tested_on() -> None:
    def build(holdout: Holdout | None) -> BuiltKB:
        builder = FactsBuilder(KbLimits())
        builder.add("train", ((i, f"a{i % 10}", "p", "b") for i in range(40)), "facts.tsv")
        return builder.build(holdout)

    built = build(Holdout(test=0.5))
    assert {split: len(rows) for split, rows in built.kb.splits.items()} == {"train": 5, "test": 5}
    assert built.sha256 != build(None).sha256


def test_predicates_of_graphs_are_those_of_what_is_left_to_train_on() -> None:
    builder = GraphsBuilder(KbLimits())
    builder.add("train", enumerate(family_graphs(40, (2, 3), seed=1), 1), "graphs.jsonl")
    built = builder.build(BOTH)
    assert {split: len(some) for split, some in built.kb.splits.items()} == {"train": 34, "valid": 2, "test": 4}
    assert set(built.kb.predicates) <= set(built.predicates)


@pytest.mark.parametrize("given", [{}, {"test": 0.6}, {"test": -0.1}, {"valid": 0.5, "test": 0.5}, {"train": 0.1}])
def test_shares_that_make_no_sense_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Holdout.model_validate(given)


def test_what_is_there_already_is_not_held_out_again() -> None:
    with pytest.raises(DataError, match="already"):
        hold_out(hold_out(facts(10), BOTH), Holdout(test=0.1))
    with pytest.raises(DataError, match="too few"):
        hold_out(facts(2), BOTH)
