"""What a step of the model of proofs learns from, its losses, and its members as one head."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from ctp_core.base.calibration import level
from ctp_core.base.edges import atom_tables
from ctp_core.base.goals import GoalIds
from ctp_core.errors import ArtifactError
from ctp_core.evidence.attention_trainer import AttentionTrainer, Ensemble, binary, open_world
from ctp_core.evidence.config import ProofsConfig
from ctp_core.evidence.proofs_model import ProofsModel
from ctp_core.registry import create_trainer
from ctp_core.rules import Template
from ctp_core.symbols import Goal
from tests.core.base.test_facts_model import KB, ask
from tests.core.evidence.test_attention_head import NUM_PREDICATES, How, new_head, random_facts, tables_of, ways

CPU = torch.device("cpu")
GOAL = torch.tensor([KB.predicates.id("grandparent")])


def new_trainer() -> AttentionTrainer:
    trainer = create_trainer(ProofsConfig(templates={"2": 2}, ranked="hidden", hidden_facts=0.5), KB, CPU)
    assert isinstance(trainer, AttentionTrainer)
    return trainer


def test_what_a_step_does_not_hide_is_neither_to_be_found_nor_a_rival(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = new_trainer()
    sizes = (len(KB.entities), len(KB.predicates))
    visible = atom_tables(trainer.split.train[::2], *sizes, CPU)
    monkeypatch.setattr(trainer, "_visible", lambda: visible)
    facts = atom_tables(trainer.split.train, *sizes, CPU)[GOAL]
    asked = visible[GOAL] == 0
    logits = trainer.module.logits(visible, GOAL)
    expected = functional.binary_cross_entropy_with_logits(logits[asked], facts[asked], reduction="sum")
    assert (facts[asked] > 0).any()
    assert trainer.loss(GOAL).item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_step_that_finds_hidden_facts_needs_some() -> None:
    with pytest.raises(ValueError, match="give `hidden_facts` a share above 0"):
        ProofsConfig(ranked="hidden")


def test_a_loss_that_only_ranks_expects_as_many_facts_as_are_stated() -> None:
    config = ProofsConfig(templates={"1": 2, "2": 2}, loss="softmax", epochs=20)
    trainer = create_trainer(config, KB, CPU)
    while not trainer.finished:
        trainer.train_epoch()
    model = trainer.model()
    assert isinstance(model, ProofsModel)
    again = ProofsModel.from_artifact(model.to_artifact(), CPU)
    entities, stated = np.arange(len(KB.entities)), KB.splits["train"][:, 1]
    for predicate in range(len(KB.predicates)):
        logits = again.kb_logits(GoalIds.for_objects(entities, np.full(len(entities), predicate)))
        assert (1 / (1 + np.exp(-logits))).sum() == pytest.approx(max(0.5, (stated == predicate).sum()), rel=1e-3)


def test_the_level_of_a_predicate_is_in_the_bias_of_an_answer() -> None:
    trainer = create_trainer(ProofsConfig(templates={"1": 2}, loss="softmax", epochs=2), KB, CPU)
    model = trainer.model()
    assert isinstance(model, ProofsModel)
    assert model.offsets.any()
    (answers,) = ask(model, Goal(None, "grandparent", KB.entities.names[0]))
    for answer in answers:
        parts = answer.score_parts or {}
        logit = np.log(answer.score / (1 - answer.score))
        assert sum(parts[name] or 0.0 for name in ("bias", "shown", "rest")) == pytest.approx(logit, abs=1e-4)


@pytest.mark.parametrize("num_facts", [0, 1, 7, 10])
def test_a_level_expects_the_number_of_facts(num_facts: int) -> None:
    logits = np.linspace(-1000, 1000, 10)
    expected = (1 / (1 + np.exp(-np.clip(logits + level(logits, num_facts), -500, 500)))).sum()
    assert expected == pytest.approx(min(max(num_facts, 0.5), 9.5), abs=1e-3)


@pytest.mark.parametrize("offsets", [[1.0], ["a"] * len(KB.predicates), [float("nan")] * len(KB.predicates)])
def test_offsets_that_mean_nothing_are_refused(offsets: list[Any]) -> None:
    model = create_trainer(ProofsConfig(templates={"1": 2}, loss="softmax", epochs=1), KB, CPU).model()
    artifact = model.to_artifact()
    artifact.manifest["offsets"] = offsets
    with pytest.raises(ArtifactError, match="offsets"):
        ProofsModel.from_artifact(artifact, CPU)


FACTS = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])


def gradient_at(logit: float) -> float:
    """The slope of the open-world loss in the logit of a pair that is not stated."""
    logits = torch.zeros_like(FACTS, requires_grad=True)
    open_world(logits + logit, FACTS).backward()
    assert logits.grad is not None
    return float(logits.grad[0, 1, 1])


def test_what_is_stated_costs_its_cross_entropy_and_the_rest_less() -> None:
    logits = torch.tensor([[[0.4, -9.0], [-9.0, 2.0]]])
    unsure = 2 * (1 - math.sqrt(1 - 1 / (1 + math.exp(-2.0))))
    expected = math.log1p(math.exp(-0.4)) + unsure + 2 * math.log1p(math.exp(-9.0))
    assert open_world(logits, FACTS).item() == pytest.approx(expected, abs=1e-4)
    assert open_world(logits, FACTS) < binary(logits, FACTS)


def test_the_surer_a_pair_the_less_it_is_held_to_be_false() -> None:
    assert gradient_at(-4.0) == pytest.approx(1 / (1 + math.exp(4.0)), rel=0.02)  # as cross-entropy has it
    assert gradient_at(0.7) > gradient_at(3.0) > gradient_at(6.0) > 0


def test_no_logit_is_too_large_for_it() -> None:
    logits = torch.tensor([[[-1e4, 1e4], [1e4, -1e4]]], requires_grad=True)
    loss = open_world(logits, FACTS)
    loss.backward()
    assert torch.isfinite(loss)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


@ways
def test_the_merged_head_scores_like_the_mean_of_its_members(how: How) -> None:
    ensemble = Ensemble([new_head(seed, how) for seed in range(3)])
    with torch.no_grad():
        for number, head in enumerate(ensemble.heads):
            for parameter in head.parameters():
                parameter.add_(number)
        tables, goals = tables_of(random_facts(5)), torch.arange(NUM_PREDICATES)
        merged = ensemble.merged().double()
        assert merged.templates[Template(2)] == 3 * ensemble.heads[0].templates[Template(2)]
        assert torch.allclose(merged.logits(tables, goals), ensemble.logits(tables, goals), atol=1e-5)
