"""What a step of the model of proofs learns from."""

import pytest
import torch
from torch.nn import functional

from ctp_core.config import ProofsConfig
from ctp_core.models.registry import create_trainer
from ctp_core.provers.evidence import atom_tables
from ctp_core.training.proofs import ProofsTrainer
from tests.core.models.test_facts_models import KB

CPU = torch.device("cpu")
GOAL = torch.tensor([KB.predicates.id("grandparent")])


def new_trainer() -> ProofsTrainer:
    trainer = create_trainer(ProofsConfig(templates={"2": 2}, ranked="hidden", hidden_facts=0.5), KB, CPU)
    assert isinstance(trainer, ProofsTrainer)
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
