"""Which questions versions are compared by, and the test between them."""

import pytest

from ctp_core.datasets.kb import FactsKB
from ctp_core.symbols import Fact
from service.models.contest import Trial, _fact_trials, sign_test


@pytest.mark.parametrize(
    ("only_first", "only_second", "p"), [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (8, 1, 0.0390625), (3, 3, 1.0)]
)
def test_mcnemar_by_hand(only_first: int, only_second: int, p: float) -> None:
    pairs = [(True, False)] * only_first + [(False, True)] * only_second + [(True, True)] * 3
    assert sign_test(pairs) == pytest.approx(p)


def test_other_true_answers_are_passed_over() -> None:
    facts = {"train": [Fact("a", "p", "b"), Fact("a", "q", "b")], "test": [Fact("a", "p", "c")]}
    [trial] = _fact_trials(FactsKB.from_facts(facts), "test")
    assert trial == Trial("p", ("a", "p", None), (), Fact("a", "p", "c"), frozenset({Fact("a", "p", "b")}))
    assert trial.question(0)["top_k"] == 2
    answers = b'"answers":[{"subject":"a","predicate":"p","object":"b"},{"subject":"a","predicate":"p","object":"c"}]'
    first = trial.first(answers)
    assert first is not None
    assert first["object"] == "c"
    assert trial.first({"code": "unknown_symbol", "status": 422}) is None
