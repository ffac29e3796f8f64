"""Weights of rules with constants, chosen on held-out facts."""

import numpy as np
import pytest
import torch

from ctp_core.base import shrinkage
from ctp_core.base.evaluation.ranking import known_filters, rank_facts
from ctp_core.evidence import rules_model
from ctp_core.evidence.config import RulesConfig
from ctp_core.evidence.constant_weights import DEFAULT_WEIGHT, WEIGHTS, choose_weights
from ctp_core.evidence.rules_trainer import RulesTrainer
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact

CPU = torch.device("cpu")


def towns() -> FactsKB:
    """Whoever lives in town k speaks language k, which a constant tells; friends are mutual, which a chain tells."""
    choose = np.random.default_rng(0)
    people = [f"person{index}" for index in range(60)]
    facts = {"train": list[Fact](), "valid": list[Fact]()}
    for index, person in enumerate(people):
        facts["train"].append(Fact(person, "lives_in", f"town{index % 4}"))
        facts["valid" if index % 5 == 0 else "train"].append(Fact(person, "speaks", f"language{index % 4}"))
        friend = people[int(choose.integers(60))]
        facts["train"].append(Fact(person, "friend", friend))
        facts["valid" if index % 5 == 1 else "train"].append(Fact(friend, "friend", person))
    facts["valid"] = [fact for fact in facts["valid"] if fact not in set(facts["train"])]
    return FactsKB.from_facts(facts)


@pytest.fixture(scope="module")
def trainer() -> RulesTrainer:
    one = create_trainer(RulesConfig(steps=20, max_length=2), towns(), CPU)
    assert isinstance(one, RulesTrainer)
    while not one.finished:
        one.train_epoch()
    return one


def visible(trainer: RulesTrainer) -> rules_model.RulesModel:
    return trainer.model_on(trainer.split.visible(trainer.kb))


def test_the_mrr_told_is_that_of_a_model_with_the_weights_chosen(trainer: RulesTrainer) -> None:
    facts = trainer.split.valid
    weights, mrr = choose_weights(visible(trainer), facts)
    trainer._constants = weights
    model = visible(trainer)
    ranks = rank_facts(facts, model.kb_logits, known_filters(model.kb, "valid"))
    assert (1 / ranks).mean() == pytest.approx(mrr)
    assert set(weights.tolist()) <= set(WEIGHTS)
    assert weights[trainer.kb.predicates.id("speaks")] > 0


def test_ranks_do_not_depend_on_how_many_are_computed_at_once(
    trainer: RulesTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, facts = visible(trainer), trainer.split.valid
    together = model.ranks_by_constants(facts, WEIGHTS)
    monkeypatch.setattr(rules_model, "BATCH", 2)
    for weight, ranks in model.ranks_by_constants(facts, WEIGHTS).items():
        assert np.array_equal(ranks, together[weight])


def test_a_predicate_has_a_weight_of_its_own_only_where_it_has_many_questions(
    trainer: RulesTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, mrr = choose_weights(visible(trainer), trainer.split.valid)
    assert len(set(weights.tolist())) == 1
    monkeypatch.setattr(shrinkage, "OWN_FROM", 1)
    monkeypatch.setattr(shrinkage, "COMMON", 0)
    _, own = choose_weights(visible(trainer), trainer.split.valid)
    assert own >= mrr


def test_without_held_out_facts_the_weight_is_the_default(trainer: RulesTrainer) -> None:
    weights, _ = choose_weights(visible(trainer), trainer.split.valid[:0])
    assert set(weights.tolist()) == {DEFAULT_WEIGHT}
