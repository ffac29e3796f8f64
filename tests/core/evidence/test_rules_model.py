"""Rules with constants in a model of mined rules: what they say, how they read, where they hold."""

import math

import pytest
import torch

from ctp_core.base.model import Model
from ctp_core.evidence.config import RulesConfig
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.prolog_rules import clause
from ctp_core.registry import create_trainer
from ctp_core.rules import SIDES
from ctp_core.symbols import Fact, Goal
from tests.core.base.test_facts_model import ask

CPU = torch.device("cpu")
PEOPLE = [f"person{i}" for i in range(12)]
FACTS = [Fact(person, "lives in", "Paris" if i % 2 else "Rome") for i, person in enumerate(PEOPLE)]
FACTS += [Fact(person, "speaks", "french" if i % 2 else "italian") for i, person in enumerate(PEOPLE[:10])]
KB = FactsKB.from_facts({"train": FACTS})
trained: list[Model] = []


def model() -> Model:
    if not trained:
        trained.append(create_trainer(RulesConfig(steps=20), KB, CPU).fit())
    return trained[0]


def test_what_is_said_of_one_entity_predicts_the_other() -> None:
    (answers,) = ask(model(), Goal("person11", "speaks", None), top_k=3)
    assert answers[0].fact.object == "french"
    texts = [proof.tree.rule.text for proof in answers[0].proofs if proof.tree.rule is not None]
    assert "speaks(X,'french') :- lives in(X,'Paris')" in texts
    proof = next(p for p in answers[0].proofs if p.tree.rule and p.tree.rule.template == SIDES[0])
    assert proof.facts == (Fact("person11", "lives in", "Paris"),)
    assert proof.tree.bindings == {"X": "person11"}  # what is constant is bound to nothing


@pytest.mark.parametrize("goal", [Goal("person11", "speaks", None), Goal(None, "speaks", "french")])
def test_the_shares_of_all_proofs_and_the_bias_are_the_logit(goal: Goal) -> None:
    for answer in ask(model(), goal, top_k=20, proofs=100)[0]:
        assert answer.score_parts is not None
        total = answer.score_parts["bias"] + sum(proof.share or 0.0 for proof in answer.proofs)  # type: ignore[operator]
        assert 1 / (1 + math.exp(-total)) == pytest.approx(answer.score, abs=1e-9)
        assert answer.score_parts["rest"] == pytest.approx(0, abs=1e-9)


def test_listed_rules_are_counted_over_the_kb() -> None:
    listed = {rule.text: rule for rule in model().rules()}
    rule = listed["speaks(X,'french') :- lives in(X,'Paris')"]
    assert (rule.support, rule.precision) == (5, 5 / 6)
    values = rule.values()
    assert clause(values["head"], values["body"]) == "speaks(X,'french') :- 'lives in'(X,'Paris')."


def test_on_another_kb_constants_say_nothing() -> None:
    other = FactsKB.from_facts({"train": [Fact("anna", "lives in", "Paris"), Fact("bob", "speaks", "french")]})
    for answer in ask(model().on(other), Goal("anna", "speaks", None), proofs=10)[0]:
        assert all(p.tree.rule and not p.tree.rule.template.constant for p in answer.proofs)


def test_a_person_of_the_question_is_judged_by_its_facts() -> None:
    facts = (Fact("newcomer", "lives in", "Rome"),)
    (answers,) = ask(model(), Goal("newcomer", "speaks", None), facts=facts)
    assert answers[0].fact.object == "italian"
    assert any(proof.facts == facts for proof in answers[0].proofs)


def of_quarters() -> Model:
    """Everybody lives in another quarter: only the city that it is part of says what is spoken."""
    facts = [Fact(person, "lives in", f"quarter{i}") for i, person in enumerate(PEOPLE)]
    facts += [Fact(f"quarter{i}", "part of", "Paris" if i % 2 else "Rome") for i in range(len(PEOPLE))]
    facts += [Fact(person, "speaks", "french" if i % 2 else "italian") for i, person in enumerate(PEOPLE[:10])]
    kb = FactsKB.from_facts({"train": facts})
    return create_trainer(RulesConfig(max_length=1, steps=20, constant_atoms=2), kb, CPU).fit()


def test_a_rule_with_constants_may_have_two_atoms() -> None:
    quarters, text = of_quarters(), "speaks(X,'french') :- lives in(X,Z), part of(Z,'Paris')"
    (answers,) = ask(quarters, Goal("person11", "speaks", None), top_k=3, proofs=10)
    assert answers[0].fact.object == "french"
    proof = next(proof for proof in answers[0].proofs if proof.tree.rule and proof.tree.rule.text == text)
    assert proof.facts == (Fact("person11", "lives in", "quarter11"), Fact("quarter11", "part of", "Paris"))
    assert answers[0].score_parts is not None
    assert answers[0].score_parts["rest"] == pytest.approx(0, abs=1e-9)
    rule = next(rule for rule in quarters.rules() if rule.text == text)
    assert (rule.support, rule.precision) == (5, 5 / 6)


def test_the_facts_of_a_question_may_be_either_atom_of_such_a_rule() -> None:
    facts = (Fact("newcomer", "lives in", "new quarter"), Fact("new quarter", "part of", "Rome"))
    (answers,) = ask(of_quarters(), Goal("newcomer", "speaks", None), facts=facts)
    assert answers[0].fact.object == "italian"
    assert any(proof.facts == facts for proof in answers[0].proofs)


@pytest.mark.slow
def test_a_rule_with_constants_is_not_listed_where_a_general_rule_explains_the_same() -> None:
    """Who lives in a city speaks its language: no city says more than that. Only Bern's people have a pass as well."""
    cities = {city: f"language{number}" for number, city in enumerate(("Paris", "Rome", "Bern", "Oslo"))}
    facts = [Fact(city, "has language", language) for city, language in cities.items()]
    for number in range(40):
        person, city = f"person{number}", list(cities)[number % 4]
        facts.append(Fact(person, "lives in", city))
        facts.append(Fact(person, "speaks", cities[city]))
        if city == "Bern":
            facts.append(Fact(person, "speaks", "latin"))
    fitted = create_trainer(RulesConfig(steps=60, max_length=2), FactsKB.from_facts({"train": facts}), CPU).fit()
    listed = [rule.text for rule in fitted.rules() if rule.predicate == "speaks" and not rule.prior]
    assert "speaks(X,Y) :- lives in(X,Z), has language(Z,Y)" in listed
    assert "speaks(X,'latin') :- lives in(X,'Bern')" in listed
    assert not any(f"speaks(X,'{language}') :- lives in(X,'{city}')" in listed for city, language in cities.items())
