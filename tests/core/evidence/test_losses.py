"""Losses over the logits of all pairs of entities."""

import math

import pytest
import torch

from ctp_core.evidence.losses import binary, open_world

FACTS = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])


def gradient_at(logit: float) -> float:
    """Of the open-world loss, in the logit of a pair that is not stated."""
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
