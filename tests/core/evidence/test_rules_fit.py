"""The sparse fit against the same loss written out over all entities."""

import numpy as np
import pytest
import torch
from scipy import sparse

from ctp_core.evidence.config import RulesConfig
from ctp_core.evidence.rules_fit import Questions, cells_of, collect, fit
from ctp_core.rules import Template

NUM_QUESTIONS, NUM_ENTITIES = 3, 5


def example(seed: int) -> tuple[Questions, torch.Tensor, np.ndarray, np.ndarray]:
    """(questions, dense features [question, entity, rule], known, true features): rule 2 is about one entity alone."""
    choose = np.random.default_rng(seed)
    counts = choose.integers(0, 3, (NUM_QUESTIONS, NUM_ENTITIES, 2))
    said = choose.integers(0, 3, NUM_ENTITIES)
    known = choose.random((NUM_QUESTIONS, NUM_ENTITIES)) < 0.3
    true = choose.random((NUM_QUESTIONS, 3))
    cells = []
    for rule in range(2):
        question, entity = np.nonzero((counts[..., rule] > 0) & ~known)
        cells.append(cells_of(question, entity, counts[question, entity, rule], Template(2), rule))
    base = np.zeros((NUM_ENTITIES, 3))
    base[:, 2] = np.log1p(said)
    dense = torch.zeros(NUM_QUESTIONS, NUM_ENTITIES, 3, dtype=torch.float64)
    dense[..., :2] = torch.from_numpy(counts / (1 + counts))
    dense[..., 2] = torch.from_numpy(base[:, 2])
    return collect(cells, sparse.csr_array(base), true, known), dense, known, true


@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradient_are_those_over_all_entities(seed: int) -> None:
    questions, dense, known, true = example(seed)
    weights = torch.tensor([0.7, 1.3, 0.4], dtype=torch.float64, requires_grad=True)
    rivals = torch.logsumexp((dense @ weights).masked_fill(torch.from_numpy(known), -torch.inf), 1)
    expected = torch.nn.functional.softplus(rivals - torch.from_numpy(true) @ weights).mean()
    expected.backward()  # type: ignore[no-untyped-call]
    loss, gradient = questions.loss(weights.detach().numpy())
    assert loss == pytest.approx(expected.item())
    assert weights.grad is not None
    assert gradient == pytest.approx(weights.grad.numpy())


def test_a_fit_lowers_the_loss_and_leaves_out_what_is_not_active() -> None:
    questions, *_ = example(4)
    config = RulesConfig(steps=100)
    before, _ = questions.loss(np.full(3, 0.3))
    weights, _, after = fit([questions], np.array([1.0, 0.0, 1.0]), config)
    assert after < before
    assert weights[1] == 0
    assert (weights >= 0).all()
