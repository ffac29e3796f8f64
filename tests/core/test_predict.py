"""Predictions in bulk are the answers that the same questions get one by one."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from ctp_core.base.facts_model import FactsModel
from ctp_core.base.model import Answers, Budget, Question
from ctp_core.errors import UnknownSymbol
from ctp_core.methods import METHODS
from ctp_core.predict import Prediction, Predictor, Wanted, alike
from ctp_core.symbols import Goal
from tests.core.test_evaluate import family_kb, trained

ROUNDING = {"frontier": 1e-5}  # computes with 32 bits, and adds in another order where more is asked at once
FACTS = sorted(method for kind, method in METHODS if kind == "facts")


@cache
def model_of(method: str) -> FactsModel:
    model = trained(method, family_kb(), **({} if method == "rules" else {"epochs": 1}))
    assert isinstance(model, FactsModel)
    return model


def predicted(model: FactsModel, first: int = 0, **wanted: Any) -> list[Prediction]:
    predictor = Predictor(model, Wanted(**{"predicate": "sibling", "min_score": 0.0} | wanted))
    return [row for _, rows in predictor.batches(first) for row in rows]


def answered(model: FactsModel, goal: Goal, **options: Any) -> Answers:
    (answers,) = model.answer([Question(goal, exclude_known=True, proofs=0, **options)], Budget())
    assert isinstance(answers, Answers)
    return answers


def subjects_of(model: FactsModel, predicate: str) -> list[str]:
    asked = alike(model.kb_view.stated, model.kb.predicates.id(predicate))
    return [model.kb.entities.names[entity] for entity in asked.tolist()]


@pytest.mark.parametrize("method", FACTS)
def test_every_method_predicts_what_it_answers_one_by_one(method: str) -> None:
    model = model_of(method)
    found = predicted(model, top_k=4, proofs=0)
    every = {
        subject: answered(model, Goal(subject, "sibling", None), top_k=len(model.kb.entities)).items
        for subject in subjects_of(model, "sibling")
    }
    best = [(subject, answer, rank) for subject in every for rank, answer in enumerate(every[subject][:4], 1)]
    assert [(row.fact.subject, row.rank) for row in found] == [(subject, rank) for subject, _, rank in best]
    # Answers whose scores are equal, up to the order in which numbers were added, may change places.
    equal = {"rel": ROUNDING.get(method, 1e-9)}
    assert [row.score for row in found] == pytest.approx([answer.score for _, answer, _ in best], **equal)
    alone = {answer.fact: answer.score for answers in every.values() for answer in answers}
    assert [row.score for row in found] == pytest.approx([alone[row.fact] for row in found], **equal)
    assert {row.asked for row in found} == {"object"}
    assert not any(row.known for row in found)


@pytest.mark.parametrize("method", ["rules", "proofs", "ctp"])
def test_with_a_proof_each_row_has_the_best_one_of_its_answer(method: str) -> None:
    model = model_of(method)
    for row in predicted(model, top_k=2, proofs=1, subjects=subjects_of(model, "sibling")[:4]):
        (answers,) = model.answer([Question(Goal(*row.fact), proofs=1)], Budget())
        assert isinstance(answers, Answers)
        best = answers.items[0].proofs
        assert (row.proof.text if row.proof else None) == (best[0].text if best else None)


def test_who_may_have_a_fact_is_asked_about_though_none_is_stated() -> None:
    citizen, born, located = 0, 1, 2
    people, cities, countries = range(6), range(6, 8), range(8, 10)
    stated = [(one, born, 6 + one % 2) for one in people] + [(city, located, city + 2) for city in cities]
    stated += [(one, citizen, 8 + one % 2) for one in people[:4]]  # of two, no citizenship is stated
    facts = np.array(stated)
    assert alike(facts, citizen).tolist() == list(people)
    assert alike(facts, located).tolist() == list(cities)
    alone = np.array([(0, citizen, countries[0]), (1, born, 6)])  # nobody is known to be of the kind of a citizen
    assert alike(alone, citizen).tolist() == [0]
    assert alike(alone, located).tolist() == []


def test_only_scores_of_at_least_the_least_are_kept_and_known_facts_on_demand() -> None:
    model = model_of("rules")
    every = predicted(model, top_k=1000)
    least = sorted(row.score for row in every)[len(every) // 2]
    assert predicted(model, top_k=1000, min_score=least) == [row for row in every if row.score >= least]
    with_known = predicted(model, top_k=1000, exclude_known=False)
    assert [row._replace(rank=0) for row in with_known if not row.known] == [row._replace(rank=0) for row in every]
    stated = model.kb_view.stated
    num_stated = int((stated[:, 1] == model.kb.predicates.id("sibling")).sum())
    assert sum(row.known for row in with_known) == num_stated


def test_objects_alone_are_asked_for_their_subjects_and_with_subjects_each_pair() -> None:
    model = model_of("proofs")
    names = subjects_of(model, "sibling")
    backwards = predicted(model, objects=names[:3], top_k=2)
    assert {row.fact.object for row in backwards} == set(names[:3])
    assert {row.asked for row in backwards} == {"subject"}
    one = answered(model, Goal(None, "sibling", backwards[0].fact.object), top_k=2).items
    assert [row.fact for row in backwards[:2]] == [answer.fact for answer in one]
    pairs = predicted(model, subjects=names[:2], objects=names[2:5], top_k=1, exclude_known=False)
    assert len(pairs) == 6, "of pairs, each is a question"
    assert {(row.rank, row.asked) for row in pairs} == {(1, "fact")}
    (alone,) = model.answer([Question(Goal(*pairs[0].fact))], Budget())
    assert isinstance(alone, Answers)
    assert pairs[0].score == pytest.approx(alone.items[0].score, rel=1e-9)


def test_the_order_is_that_of_the_kb_and_a_later_beginning_gives_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("rules")
    names = subjects_of(model, "sibling")
    every = predicted(model, subjects=names)
    assert predicted(model, subjects=[*reversed(names), names[0]]) == every
    monkeypatch.setattr("ctp_core.predict.MOST_AT_ONCE", 3)
    predictor = Predictor(model, Wanted("sibling", min_score=0.0))
    steps = list(predictor.batches())
    assert [row for _, rows in steps for row in rows] == every, "however many are asked at once"
    assert steps[-1][0] == predictor.num_steps == len(names)
    done, first = steps[0]
    assert first + predicted(model, first=done) == every


def test_an_embedding_predicts_about_entities_that_training_never_saw() -> None:
    model = model_of("hybrid")
    assert "stranger" in model.kb.entities
    rows = predicted(model, predicate="parent", top_k=1000)
    assert any(row.fact.subject == "stranger" for row in rows)


def test_names_that_the_kb_does_not_have_are_named() -> None:
    model = model_of("rules")
    for wrong in ({"predicate": "sibbling"}, {"subjects": ["nobody"]}, {"objects": ["nobody"]}):
        with pytest.raises(UnknownSymbol):
            predicted(model, **wrong)


def test_nothing_is_predicted_where_the_score_cannot_be_reached() -> None:
    assert torch.is_grad_enabled()
    assert predicted(model_of("distmult"), min_score=1.0) == []
