"""A KB without validation facts spares some: no model may stand on them while it is asked for them."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit

from ctp_core.base.config import BaseConfig
from ctp_core.base.progress import unheard
from ctp_core.evidence.config import RulesConfig
from ctp_core.evidence.rules_arrays import PADDING, RuleTable
from ctp_core.evidence.rules_trainer import RulesTrainer
from ctp_core.hybrid.config import HybridConfig
from ctp_core.hybrid.trainer import HybridTrainer
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.splits import HOLD_OUT_FROM, LEAST_VALID, FactsSplit
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact
from ctp_core.walkers.config import MinervaConfig, NeuralLpConfig
from ctp_core.walkers.model import FLOOR, ReachModel
from ctp_core.walkers.trainer import ReachTrainer

CPU = torch.device("cpu")
# Pairs that nothing connects but the one fact of each: whoever does not see it can only guess among all entities.
PAIRS = FactsKB.from_facts({"train": [Fact(f"a{i}", "p", f"b{i}") for i in range(HOLD_OUT_FROM)]})
FEW = FactsKB.from_facts({"train": [Fact(f"a{i}", "p", f"b{i}") for i in range(20)]})
TRIANGLE = FactsKB.from_facts({"train": [Fact(*f) for f in (("a", "p", "b"), ("b", "q", "c"), ("a", "q", "c"))]})


each_walker = pytest.mark.parametrize(
    "config", [NeuralLpConfig(dim=4, length=1, rank=1), MinervaConfig(dim=4, length=1, beam=4)], ids=lambda c: c.method
)


def following_p(config: BaseConfig, kb: FactsKB) -> ReachTrainer:
    """Has weights that follow p where p is asked for: exactly what a leak rewards."""
    trainer = create_trainer(config, kb, CPU)
    assert isinstance(trainer, ReachTrainer)
    with torch.no_grad():
        for parameter in trainer.module.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(0))
    return trainer


@pytest.mark.parametrize(("stated", "held_out"), [(0, 25), (1, 25), (LEAST_VALID - 1, 25), (LEAST_VALID, 0)], ids=str)
def test_few_validation_facts_are_joined_by_some_that_training_can_spare(stated: int, held_out: int) -> None:
    valid = [Fact(f"a{i}", "p", f"b{i + 1}") for i in range(stated)]
    kb = FactsKB.from_facts({"train": [PAIRS.fact(row) for row in PAIRS.splits["train"].tolist()], "valid": valid})
    split = FactsSplit.of(kb)
    assert (len(split.train), len(split.valid)) == (HOLD_OUT_FROM - held_out, stated + held_out)
    assert split.measurable


def test_a_small_kb_with_one_validation_fact_is_not_measurable() -> None:
    facts = [FEW.fact(row) for row in FEW.splits["train"].tolist()]
    split = FactsSplit.of(FactsKB.from_facts({"train": facts[1:], "valid": facts[:1]}))
    assert (len(split.train), len(split.valid), split.measurable) == (19, 1, False)


@each_walker
def test_a_held_out_fact_is_no_edge_to_its_own_answer(config: BaseConfig) -> None:
    trainer = following_p(config, PAIRS)
    assert len(trainer.split.valid) == 25
    assert trainer.ranks().min() > 100


@each_walker
def test_scores_are_not_calibrated_on_facts_that_lead_to_themselves(config: BaseConfig) -> None:
    trainer = following_p(config, FEW)
    model = trainer.model()
    assert isinstance(model, ReachModel)
    assert model.calibration is not None
    nowhere, certain = expit(model.calibration.logits(np.log([FLOOR, 1.0]), np.array([0, 0])))
    # No fact was reached: the base rate of one answer among all entities, and no reason to believe what is reached.
    assert nowhere == pytest.approx(1 / len(FEW.entities), abs=0.01)
    assert certain < 0.1


def rows(**settings: Any) -> RulesTrainer:
    trainer = create_trainer(RulesConfig(steps=5, **settings), PAIRS, CPU)
    assert isinstance(trainer, RulesTrainer)
    return trainer


def test_rules_are_validated_without_the_facts_held_out() -> None:
    trainer = rows()
    while not trainer.finished:
        progress = trainer.train_epoch()
    assert set(progress.metrics) == {"mrr", "hits@1", "hits@3", "hits@10"}
    one = np.array([0])
    itself = RuleTable(one, one, np.array([[0, PADDING]]), np.array([5.0]), np.zeros(1), np.zeros(1))
    trainer._tables = [itself]  # p(X,Y) :- p(X,Y)
    assert trainer._validate(1000)["mrr"] < 0.1
    trainer._weigh_constants(unheard)
    assert trainer._validate(1000)["mrr"] < 0.1


def test_a_hybrid_is_validated_without_the_facts_held_out() -> None:
    trainer = create_trainer(HybridConfig(epochs=1, proofs=RulesConfig(steps=5)), PAIRS, CPU)
    assert isinstance(trainer, HybridTrainer)
    assert len(trainer._validated().kb.splits["train"]) == 475
    assert len(trainer.model().kb.splits["train"]) == 500


def test_the_loss_of_minerva_needs_nobody_to_have_asked_for_its_rate() -> None:
    trainer = create_trainer(MinervaConfig(dim=4, entropy=0.5), TRIANGLE, CPU)
    assert isinstance(trainer, ReachTrainer)
    batch, losses = trainer.batches()[0], []
    for made in (0.0, 1.0):
        trainer.generator.manual_seed(0)
        trainer.made = made
        losses.append(trainer.loss(batch).item())
    assert losses[0] < losses[1]  # what is open is rewarded at first, and not at the end
