"""The preset `fast` learns what a family's words mean from one small family."""

import pytest
import torch

from ctp_core.base.model import Answers, Budget, Model, Question
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.profile import Profile
from ctp_core.methods import presets
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact, Goal
from tests.core.families import random_family

LESSONS = [
    ("grandparent", ("parent", "grandparent"), "grandparent(X,Y) :- parent(X,Z), parent(Z,Y)"),
    ("sibling", ("parent", "sibling"), "sibling(X,Y) :- parent(Z,X), parent(Z,Y)"),
    ("aunt", ("parent", "sister", "aunt"), "aunt(X,Y) :- sister(X,Z), parent(Z,Y)"),
]


def learn(kb: FactsKB) -> Model:
    return create_trainer(presets(Profile.of(kb))["fast"], kb, torch.device("cpu")).fit()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("predicate", "predicates", "rule"), LESSONS)
def test_a_hidden_fact_of_a_random_family_is_answered_with_its_proof(
    predicate: str, predicates: tuple[str, ...], rule: str, seed: int
) -> None:
    family = random_family(seed)
    pairs = getattr(family, predicate)
    hidden = Fact(pairs[seed][0], predicate, pairs[seed][1])
    model = learn(family.kb(predicates, hidden))
    (answers,) = model.answer([Question(Goal(hidden.subject, predicate, None), exclude_known=True)], Budget())
    assert isinstance(answers, Answers)
    best, second = answers.items[:2]
    assert best.fact == hidden
    assert best.score > 3 * second.score
    assert any(proof.tree.rule is not None and proof.tree.rule.text == rule for proof in best.proofs)
    listed = [r.text for r in model.rules() if r.head.predicate == predicate]
    assert rule in listed[:3]


RICK = [
    *[("rick", "parent", "beth"), ("beth", "parent", "morty"), ("beth", "parent", "summer")],
    *[("ann", "parent", "bob"), ("bob", "parent", "cid"), ("bob", "parent", "dora"), ("ann", "grandparent", "cid")],
    *[
        ("ann", "grandparent", "dora"),
        ("eve", "parent", "fay"),
        ("fay", "parent", "gus"),
        ("eve", "grandparent", "gus"),
    ],
    *[("hal", "parent", "ida"), ("ida", "parent", "jon"), ("hal", "grandparent", "jon"), ("ida", "parent", "kim")],
    *[("hal", "grandparent", "kim"), ("leo", "parent", "mia"), ("mia", "parent", "ned"), ("leo", "grandparent", "ned")],
    ("rick", "grandparent", "summer"),
]


@pytest.mark.slow
def test_twenty_facts_are_enough_for_ricks_grandchild() -> None:
    model = learn(FactsKB.from_facts({"train": [Fact(*fact) for fact in RICK]}))
    (answers,) = model.answer([Question(Goal("rick", "grandparent", None), exclude_known=True)], Budget())
    assert isinstance(answers, Answers)
    best = answers.items[0]
    assert (best.fact.object, best.known) == ("morty", False)
    assert best.proofs[0].text == "grandparent(rick, morty) ⇐ parent(rick, beth), parent(beth, morty)"
    assert (
        next(r.text for r in model.rules() if r.head.predicate == "grandparent")
        == "grandparent(X,Y) :- parent(X,Z), parent(Z,Y)"
    )
