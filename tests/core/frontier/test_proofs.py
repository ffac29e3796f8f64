"""Proofs are paths that the score rests on: it falls when their facts are gone, and the parts add up to it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from ctp_core.base.facts_model import FactsView
from ctp_core.base.goals import GoalIds
from ctp_core.base.model import Answer, Answers, Budget, Model, Question
from ctp_core.frontier.answering import NO_IDS, Answering
from ctp_core.frontier.model import FrontierModel
from ctp_core.frontier.paths import Path
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.symbols import Fact, Goal
from tests.core.frontier.families import family_kb, trained


def ask(model: Model, goal: Goal, **options: object) -> tuple[Answer, ...]:
    (answers,) = model.answer([replace(Question(goal), **options)], Budget())  # type: ignore[arg-type]
    assert isinstance(answers, Answers)
    return answers.items


def without(kb: FactsKB, facts: tuple[Fact, ...]) -> FactsKB:
    """The same names and numbers, but fewer facts."""
    rows = {
        tuple(row)
        for row in ((kb.entities.id(f.subject), kb.predicates.id(f.predicate), kb.entities.id(f.object)) for f in facts)
    }
    kept = [row for row in kb.splits["train"].tolist() if tuple(row) not in rows]
    return replace(kb, splits={**kb.splits, "train": np.array(kept)})


@pytest.mark.slow
def test_a_right_answer_scores_less_without_the_facts_of_its_first_proof() -> None:
    model, kb = trained(), family_kb(1)
    fell = []
    for fact in [*kb.facts("valid"), *kb.facts("test")]:
        answer = ask(model, Goal(fact.subject, fact.predicate, None), proofs=1, exclude_known=False, top_k=5)[0]
        if answer.fact not in {*kb.facts("valid"), *kb.facts("test"), *kb.facts("train")}:
            continue
        first = answer.proofs[0].facts if answer.proofs else ()
        poorer = FrontierModel(model.config, without(kb, first), model.network)
        (again,) = ask(poorer.calibrated_by(model.calibration), Goal(*answer.fact), proofs=0)
        fell.append(again.score < answer.score)
    assert len(fell) > 20
    assert np.mean(fell) >= 0.95


@pytest.mark.slow
def test_the_parts_of_a_score_add_up_and_name_what_proofs_do_not_explain() -> None:
    for answer in ask(trained(), Goal(family_kb(1).facts("test")[0].subject, "grandparent", None), top_k=20):
        parts = answer.score_parts
        assert parts is not None and set(parts) == {"bias", "shown", "rest", "num_proofs"}
        total = sum(float(parts[name] or 0) for name in ("bias", "shown", "rest"))
        assert answer.score == pytest.approx(1 / (1 + math.exp(-total)), abs=1e-9)
        assert sum(proof.share or 0 for proof in answer.proofs) == pytest.approx(parts["shown"])
        for proof in answer.proofs:
            assert proof.share is not None and proof.share > 0
            assert proof.score == pytest.approx(math.prod(one.score for one in proof.tree.unifications))
            assert answer.fact not in proof.facts


@pytest.mark.slow
def test_taking_the_steps_again_for_one_answer_gives_the_gain_that_all_steps_gave() -> None:
    model, kb = trained(), family_kb(1)
    answering = Answering(model.network, model.config, FactsView.of(kb))
    facts = np.array([(s, p, o) for s in range(0, 20, 3) for p in range(3) for o in range(1, 20, 4)])
    facts = facts[~answering.view.edges.states(facts)]
    rows = np.arange(len(facts))
    with torch.no_grad():
        assert answering.without(facts, rows, NO_IDS, facts[:0]) == pytest.approx(answering.scores(facts), abs=1e-5)


@pytest.mark.slow
def test_a_stated_fact_is_scored_as_if_it_were_not_stated() -> None:
    model, kb = trained(), family_kb(1)
    for fact in kb.facts("train")[::15]:
        poorer = FrontierModel(model.config, without(kb, (fact,)), model.network)
        row = GoalIds.hiding(
            np.array([[kb.entities.id(fact.subject), kb.predicates.id(fact.predicate), kb.entities.id(fact.object)]]),
            None,
        )
        with torch.no_grad():
            assert model.kb_logits(row) == pytest.approx(poorer.kb_logits(row), abs=1e-4)


@pytest.mark.slow
def test_a_family_of_strangers_is_asked_about() -> None:
    """No entity of the other KB was seen in training; their grandparents are found, with proofs about them."""
    model, kb = trained().on(family_kb(2)), family_kb(2)
    found = []
    for fact in kb.facts("test"):
        answers = ask(model, Goal(fact.subject, "grandparent", None), exclude_known=False, top_k=20)
        wanted = [answer.fact for answer in answers if not answer.known or answer.fact == fact]
        found.append(1 / (1 + wanted.index(fact)) if fact in wanted else 0.0)
        stated = set(kb.facts("train"))
        assert all(leaf in stated for answer in answers for proof in answer.proofs for leaf in proof.facts)
    assert np.mean(found) > 0.5


@pytest.mark.slow
def test_rules_are_read_off_the_proofs_with_what_was_counted() -> None:
    rules = trained().rules()
    texts = [rule.text for rule in rules if rule.predicate == "grandparent"]
    assert "grandparent(X,Y) :- parent(X,Z), parent(Z,Y)" in texts
    assert all(rule.support and rule.precision and rule.weight for rule in rules)


def test_a_path_is_read_from_either_end() -> None:
    path = Path((0, 3), (5, 6, 7), (0.5, 0.25))
    assert path.turned(2).turned(2) == path
    assert path.turned(2).facts(2)[::-1] == path.facts(2) == [(5, 0, 6), (7, 1, 6)]
    assert path.strength == 0.125


def test_a_path_that_turns_back_is_no_proof() -> None:
    assert Path((0,), (1, 2), (1.0,)).simple
    assert Path((0, 1), (1, 2, 1), (1.0, 1.0)).simple  # a fact about one entity alone
    assert not Path((0, 1, 0), (1, 2, 1, 3), (1.0, 1.0, 1.0)).simple
    assert not Path((), (1,), ()).simple
