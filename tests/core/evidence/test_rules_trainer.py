"""What rules are fitted to, and how the weights of rules with constants are chosen on validation facts."""

import numpy as np
import pytest
import torch

from ctp_core.base import evaluation
from ctp_core.base.edges import EdgeList
from ctp_core.base.evaluation import known_filters, rank_facts
from ctp_core.base.goals import GoalIds
from ctp_core.evidence import rules_model
from ctp_core.evidence import rules_trainer as rules_module
from ctp_core.evidence.config import RulesConfig
from ctp_core.evidence.predicate_rules import evidence_of
from ctp_core.evidence.rules_mining import Mined, mine_chains
from ctp_core.evidence.rules_model import RulesModel
from ctp_core.evidence.rules_trainer import (
    CONSTANT_WEIGHTS,
    DEFAULT_CONSTANT_WEIGHT,
    RulesTrainer,
    choose_constant_weights,
)
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.registry import create_trainer
from ctp_core.rules import UNARY
from ctp_core.symbols import Fact
from tests.core.evidence.test_rules_mining import provable
from tests.core.evidence.towns import towns

CPU = torch.device("cpu")


def random_kb(seed: int) -> FactsKB:
    choose = np.random.default_rng(seed)
    triples = {(int(s), int(p), int(o)) for s, p, o in choose.integers(0, (12, 2, 12), (50, 3))}
    return FactsKB.from_facts({"train": [Fact(f"e{s}", f"p{p}", f"e{o}") for s, p, o in sorted(triples)]})


def trained_on(kb: FactsKB) -> tuple[RulesTrainer, EdgeList, np.ndarray]:
    trainer = RulesTrainer(RulesConfig(min_support=1), kb, CPU)
    return trainer, trainer._edges, trainer.split.train[trainer.split.train[:, 1] == 0]


@pytest.mark.slow
@pytest.mark.parametrize("forward", [True, False])
def test_questions_hold_what_each_rule_proves_without_the_fact_asked_for(forward: bool) -> None:
    trainer, edges, facts = trained_on(random_kb(0))
    rules = [rule for length in (1, 2, 3, 4) for rule in mine_chains(edges, facts, length, trainer.config)][::9]
    questions, vague = trainer._questions(facts, rules, forward=forward)
    assert not vague
    kb = {tuple(fact) for fact in trainer.split.train.tolist()}
    for row, (subject, predicate, object_) in enumerate(facts.tolist()):
        left = EdgeList(np.array(sorted(kb - {(subject, predicate, object_)})), 12, 2)
        cells = questions.question == row
        counted = zip(questions.features.toarray()[cells].tolist(), questions.count[cells].tolist(), strict=True)
        features = sorted(tuple(np.round(row, 9)) for row, count in counted for _ in range(int(count)))
        rivals = []
        for entity in range(12):
            fact = (subject, predicate, entity) if forward else (entity, predicate, object_)
            found = _evidence(left, fact, rules)
            if fact == (subject, predicate, object_):
                assert questions.true[row].tolist() == pytest.approx(found)
            elif fact not in kb and any(found):
                rivals.append(tuple(np.round(found, 9)))
        assert features == sorted(rivals)


def _evidence(edges: EdgeList, fact: tuple[int, int, int], rules: list[Mined]) -> list[float]:
    """The evidence of each rule, from all paths that it might have counted."""
    templates = {rule.template for rule in rules}
    facts, ends = np.array([fact]), (np.array([fact[0]]), np.array([fact[2]]))
    paths = {template: provable(edges, facts, edges.paths(*ends, template)) for template in templates}
    counts = [(paths[rule.template].atoms == rule.body).all(1).sum() for rule in rules]
    return [float(evidence_of(np.array([n]), rule.template)[0]) for n, rule in zip(counts, rules, strict=True)]


def test_vague_rules_are_dropped_before_facts_are(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, edges, facts = trained_on(random_kb(1))
    rules = mine_chains(edges, facts, 3, trainer.config)
    kept, asked = trainer._affordable(rules, facts)
    assert kept == rules
    assert np.array_equal(asked, facts)
    widths = trainer._widths(rules, facts)
    monkeypatch.setattr(rules_module, "MAX_GROUNDINGS", len(facts) * widths.sum() / 2)
    kept, asked = trainer._affordable(rules, facts)
    assert 0 < len(kept) < len(rules)
    assert np.array_equal(asked, facts)
    monkeypatch.setattr(rules_module, "MAX_PATHS", 0.0)
    kept, _ = trainer._affordable([*rules, Mined(UNARY[0], (0,))], facts)
    assert kept == [Mined(UNARY[0], (0,))]


@pytest.mark.slow
def test_all_predicates_are_learnt_however_few_epochs_there_are() -> None:
    kb = random_kb(2)
    whole = RulesTrainer(RulesConfig(max_length=2), kb, CPU)
    whole.fit()
    short = RulesTrainer(RulesConfig(max_length=2, epochs=1), kb, CPU)
    short.fit()
    assert short.epochs == 2  # with that of the constants
    assert np.array_equal(short.table().head, whole.table().head)
    assert np.array_equal(short.table().weight, whole.table().weight)


def test_a_predicate_without_training_facts_is_unlikely_of_every_pair() -> None:
    train = [Fact(f"e{number}", "p", f"e{number + 1}") for number in range(20)]
    kb = FactsKB.from_facts({"train": train, "valid": [Fact("e0", "q", "e3")]})
    model = RulesTrainer(RulesConfig(max_length=2), kb, CPU).fit()
    assert isinstance(model, RulesModel)
    objects = model.kb_logits(GoalIds.for_objects(np.array([0]), np.array([kb.predicates.id("q")])))
    assert (objects < np.log(0.01)).all()


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
    weights, mrr = choose_constant_weights(visible(trainer), facts)
    trainer._constants = weights
    model = visible(trainer)
    ranks = rank_facts(facts, model.kb_logits, known_filters(model.kb, "valid"))
    assert (1 / ranks).mean() == pytest.approx(mrr)
    assert set(weights.tolist()) <= set(CONSTANT_WEIGHTS)
    assert weights[trainer.kb.predicates.id("speaks")] > 0


def test_ranks_do_not_depend_on_how_many_are_computed_at_once(
    trainer: RulesTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, facts = visible(trainer), trainer.split.valid
    together = model.ranks_by_constants(facts, CONSTANT_WEIGHTS)
    monkeypatch.setattr(evaluation, "BATCH", 2)
    for weight, ranks in model.ranks_by_constants(facts, CONSTANT_WEIGHTS).items():
        assert np.array_equal(ranks, together[weight])


def test_without_held_out_facts_the_weight_is_the_default(trainer: RulesTrainer) -> None:
    weights, _ = choose_constant_weights(visible(trainer), trainer.split.valid[:0])
    assert set(weights.tolist()) == {DEFAULT_CONSTANT_WEIGHT}
