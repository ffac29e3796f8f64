"""Why a fact has its score, which rules almost prove it, and without which facts it would not have it."""

from itertools import combinations

import pytest

from ctp_core.base.facts_model import FactsModel
from ctp_core.base.model import Answers, Budget, Question
from ctp_core.errors import BadQuestion, UnknownSymbol
from ctp_core.logic.explained import FactExplained, ToExplain, explain_fact
from ctp_core.symbols import Fact, Goal
from tests.core.base.test_facts_model import KB as FAMILY_KB
from tests.core.base.test_facts_model import model_of as family_model
from tests.core.clock import BudgetOfLooks
from tests.core.logic.models import FACTS, model_of

FEVER = Fact("aspirin", "treats", "fever")


def explained(fact: Fact, method: str = "proofs", **more: object) -> FactExplained:
    return explain_fact(model_of(method), ToExplain(fact, **more), Budget())  # type: ignore[arg-type]


def score(model: FactsModel, fact: Fact, **more: tuple[Fact, ...]) -> float:
    [found] = model.answer([Question(Goal(*fact), proofs=0, **more)], Budget())
    assert isinstance(found, Answers)
    return found.items[0].score


def test_why_is_the_answer_to_the_fact_with_its_proofs() -> None:
    why = explained(FEVER).why
    assert why.items[0].fact == FEVER
    assert why.items[0].score == score(model_of("proofs"), FEVER)
    assert why.items[0].proofs


def test_a_near_miss_lacks_one_fact_that_would_raise_the_score() -> None:
    fact = Fact("salt", "treats", "fever")
    found = explained(fact).why_not
    assert found
    for miss in found:
        assert miss.missing not in FACTS
        assert set(miss.stated) <= set(FACTS)
        assert fact not in (*miss.stated, miss.missing)
        assert miss.rule.predicate == "treats"
        assert len(miss.stated) + 1 == len(miss.rule.body.steps)
        assert miss.score_then == pytest.approx(score(model_of("proofs"), fact, facts=(miss.missing,)))
    assert [miss.score_then for miss in found] == sorted((miss.score_then for miss in found), reverse=True)


@pytest.mark.slow
def test_a_smallest_set_of_facts_is_found_as_trying_all_sets_finds_it() -> None:
    model = family_model("proofs")
    assert isinstance(model, FactsModel)
    facts = [fact for fact in FAMILY_KB.facts("train") if fact.predicate == "grandparent"][:3]
    for fact in facts:
        threshold = 0.6 * score(model, fact)
        found = explain_fact(model, ToExplain(fact, threshold), Budget()).change
        assert found.reason is None
        assert found.score_then == pytest.approx(score(model, fact, without=found.facts))
        assert found.score_then < threshold
        assert fact not in found.facts
        proved = explain_fact(model, ToExplain(fact, threshold, proofs=100), Budget()).why.items[0]
        supporting = sorted({leaf for proof in proved.proofs for leaf in proof.facts})
        for size in range(1, len(found.facts)):
            for some in combinations(supporting, size):
                assert score(model, fact, without=some) >= threshold


def test_what_is_below_the_threshold_needs_no_change_and_what_rests_on_no_facts_cannot_be_changed() -> None:
    low = explained(FEVER, threshold=1.0).change
    assert (low.facts, low.reason) == ((), "below_threshold")
    embedded = explained(FEVER, "complex", threshold=0.0)
    assert (embedded.change.facts, embedded.change.reason) == ((), "rests_on_no_facts")
    assert embedded.why_not == ()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["hybrid", "ctp", "neurallp"])
def test_every_model_of_facts_explains(method: str) -> None:
    found = explained(FEVER, method, threshold=0.01)
    assert found.why.items[0].fact == FEVER
    assert not found.truncated


def test_an_explanation_without_time_says_so() -> None:
    found = explain_fact(model_of("proofs"), ToExplain(FEVER, threshold=0.01), BudgetOfLooks(looks=4))
    assert found.truncated
    nothing = explain_fact(model_of("proofs"), ToExplain(FEVER), BudgetOfLooks(looks=0))
    assert nothing.truncated and nothing.change.reason == "out_of_time"


def test_what_cannot_be_explained_is_refused() -> None:
    with pytest.raises(UnknownSymbol):
        explained(Fact("aspirin", "treats", "nothing"))
    with pytest.raises(BadQuestion, match="model of facts"):
        explain_fact(object(), ToExplain(FEVER), Budget())  # type: ignore[arg-type]
