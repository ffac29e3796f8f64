"""The CTP on graphs ends in time and in memory: what it found until then stands, and what cannot fit is refused."""

import itertools
import tracemalloc
from typing import Any

import pytest

from ctp_core.base.model import Answers, Budget, Question
from ctp_core.ctp_graphs import exact
from ctp_core.ctp_graphs.model import CtpGraphsModel
from ctp_core.ctp_graphs.reasoner import MAX_EXACT_DEPTH
from ctp_core.ctp_graphs.theory import Theory
from ctp_core.errors import CtpError, DataError
from ctp_core.shapes import Vectors
from ctp_core.symbols import Fact, Goal
from tests.core.clock import BudgetOfLooks
from tests.core.ctp_graphs.small_models import CHAIN, RING, ask, family_kb, model


@pytest.mark.slow
@pytest.mark.parametrize("prover", ["tabled", "exact"])
def test_a_budget_that_is_over_truncates_instead_of_looping(prover: str) -> None:
    asked = model(prover=prover)
    [answers] = asked.answer([Question(Goal("a", None, "e"), RING)], Budget(seconds=-1))
    assert isinstance(answers, Answers)
    assert answers.truncated


def test_the_exact_prover_answers_by_facts_alone_when_there_is_no_time_for_more() -> None:
    facts = (Fact("a", "brother", "b"), Fact("b", "father", "c"))
    question = Question(Goal("a", "brother", None), facts)
    [hurried] = model(prover="exact").answer([question], Budget(seconds=-1))
    assert isinstance(hurried, Answers)
    assert [answer.fact for answer in hurried.items] == [facts[0]]
    assert hurried.truncated
    unhurried = ask(model(prover="exact"), *question.goal, facts=facts)
    assert Fact("a", "brother", "c") in [answer.fact for answer in unhurried.items]
    assert not unhurried.truncated


def test_the_exact_prover_looks_at_the_time_inside_its_recursion_and_never_loses_what_it_found() -> None:
    """Cut at every moment: scores only grow with time, and only the whole search is not truncated."""
    question, found = Question(Goal("a", None, "e"), CHAIN, top_k=100, proofs=0), []
    for looks in range(40):
        [answers] = model(prover="exact").answer([question], BudgetOfLooks(looks=looks))
        assert isinstance(answers, Answers)
        found.append((answers.truncated, sum(answer.score for answer in answers.items)))
        if not answers.truncated:
            break
    totals = [total for _, total in found]
    assert totals == sorted(totals)
    assert totals[0] == 0
    assert totals[-1] > 0
    assert len(found) > MAX_EXACT_DEPTH + 1  # it looked more often than once a depth


@pytest.mark.slow
def test_a_depth_beyond_memory_is_cut_and_says_so() -> None:
    chain = tuple(Fact(f"e{i}", "brother", f"e{i + 1}") for i in range(30))
    answers = ask(model(prover="exact"), "e0", None, "e2", facts=chain, depth=20, proofs=1)
    assert answers.truncated
    assert answers.items


def cyclic(entities: int) -> tuple[Fact, ...]:
    """A ring both ways: everybody is connected with everybody in many ways."""
    return tuple(Fact(f"e{i}", "brother", f"e{(i + way) % entities}") for i in range(entities) for way in (1, -1))


def peak_megabytes(asked: CtpGraphsModel, question: Question, budget: Budget) -> tuple[Answers | CtpError, float]:
    """What the arrays of charts take; tables are torch's and small beside them."""
    tracemalloc.start()
    try:
        [answers] = asked.answer([question], budget)
        return answers, tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_depth_far_beyond_the_fixpoint_costs_what_the_fixpoint_costs() -> None:
    facts = cyclic(20)
    deep, megabytes = peak_megabytes(model(), Question(Goal("e0", None, "e7"), facts, depth=1000, proofs=1), Budget())
    [settled] = model().answer([Question(Goal("e0", None, "e7"), facts, proofs=1)], Budget())
    assert isinstance(deep, Answers)
    assert isinstance(settled, Answers)
    assert [a.score for a in deep.items] == pytest.approx([a.score for a in settled.items], rel=1e-9)
    assert not deep.truncated
    assert megabytes < 60


LONG_CHAIN = tuple(Fact(f"e{i}", "brother", f"e{i + 1}") for i in range(1100))
PAIRS = tuple(Fact(f"a{i}", "brother", f"b{i}") for i in range(5000))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("facts", "goal", "said", "most"),
    [(LONG_CHAIN, Goal("e0", None, "e1100"), "too many", 400), (PAIRS, Goal("a0", None, "b0"), "10,000 entities", 50)],
    ids=["a chain too long to prove", "more entities than a table of pairs can hold"],
)
def test_what_cannot_fit_is_refused_before_it_takes_memory(
    facts: tuple[Fact, ...], goal: Goal, said: str, most: float
) -> None:
    refused, megabytes = peak_megabytes(model(), Question(goal, facts), Budget())
    assert isinstance(refused, DataError)
    assert said in str(refused)
    assert megabytes < most


@pytest.mark.slow
@pytest.mark.parametrize("depth", [None, 6])
def test_the_tabled_prover_looks_at_the_time_everywhere_and_never_loses_what_it_found(depth: int | None) -> None:
    """Cut at every moment, while the chart is made too: scores only grow, and only the whole is not truncated."""
    found = []
    for looks in itertools.count():
        question = Question(Goal("a", None, "e"), RING, top_k=100, proofs=0, depth=depth)
        [answers] = model().answer([question], BudgetOfLooks(looks=looks))
        assert isinstance(answers, Answers)
        found.append((answers.truncated, sum(answer.score for answer in answers.items)))
        if not answers.truncated:
            break
    totals = [total for _, total in found]
    assert totals == sorted(totals)
    assert totals[0] == 0
    assert totals[-1] > 0
    assert len(found) > 20  # in the connections, the ways, the steps and in each step


@pytest.mark.slow
@pytest.mark.parametrize("prover", ["tabled", "exact"])
def test_the_best_answers_have_a_proof_whenever_the_time_ends(prover: str) -> None:
    """Cut at every moment, while proofs are read back too."""
    asked, question = model(prover=prover), Question(Goal("a", None, "e"), CHAIN, top_k=4, proofs=3)
    for looks in itertools.count():
        [answers] = asked.answer([question], BudgetOfLooks(looks=looks))
        assert isinstance(answers, Answers)
        for answer in answers.items:
            assert answer.proofs[0].score == pytest.approx(answer.score, rel=1e-9)
        if not answers.truncated:
            break
    assert answers.items


@pytest.mark.slow
def test_the_exact_prover_goes_no_deeper_than_proofs_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    depths: list[int] = []

    def grow(theory: Theory, goals: Vectors, depth: int, *more: Any) -> list[exact.Level]:
        depths.append(depth)
        return exact_grow(theory, goals, depth, *more)

    exact_grow = exact.grow
    monkeypatch.setattr(exact, "grow", grow)
    asked = model(prover="exact")
    for facts, end, deepest in ((CHAIN[:2], "c", 1), (CHAIN[:3], "d", 2), (CHAIN, "e", 3), (RING, "a", 4)):
        depths.clear()
        assert not ask(asked, "a", None, end, facts=facts, depth=4).truncated
        assert max(depths) == deepest
    whole = {answer.fact: answer.score for answer in ask(asked, "a", None, "e", facts=CHAIN, top_k=99).items}
    monkeypatch.setattr("ctp_core.ctp_graphs.explainer.MAX_EDGES_LOOKED_AT", 0)
    deeper = ask(asked, "a", None, "e", facts=CHAIN, top_k=99, depth=4)
    assert {answer.fact: answer.score for answer in deeper.items} == pytest.approx(whole)


def test_when_the_time_is_over_later_questions_are_not_begun() -> None:
    question = Question(Goal("a", None, "b"), CHAIN)
    first, *others = model().answer([question] * 3, Budget(seconds=-1))
    assert isinstance(first, Answers)
    assert [answer.fact for answer in first.items][:1] == [CHAIN[0]]
    assert first.truncated
    assert others == [Answers((), truncated=True)] * 2


def test_ten_thousand_parallel_edges_answer_at_once() -> None:
    names = list(family_kb().predicates)
    facts = tuple(Fact("a", names[i % 14], "b") for i in range(5000)) + tuple(
        Fact("b", names[i % 14], "c") for i in range(5000)
    )
    answers = ask(model(), "a", None, "c", facts=facts)
    assert answers.items
    assert not answers.truncated


def test_a_graph_too_dense_to_prove_is_refused_with_the_reason() -> None:
    facts = tuple(Fact(f"e{i}", "brother", f"e{j}") for i in range(200) for j in range(200) if i != j)
    [answer] = model().answer([Question(Goal("e0", None, "e1"), facts)], Budget())
    assert isinstance(answer, DataError)
    assert "too many" in str(answer)
