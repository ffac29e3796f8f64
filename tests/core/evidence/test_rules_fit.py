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
        question, entity = np.nonzero(counts[..., rule] > 0)
        cells.append(cells_of(question, entity, counts[question, entity, rule], Template(2), rule))
    base = np.zeros((NUM_ENTITIES, 3))
    base[:, 2] = np.log1p(said)
    dense = torch.zeros(NUM_QUESTIONS, NUM_ENTITIES, 3, dtype=torch.float64)
    dense[..., :2] = torch.from_numpy(counts / (1 + counts))
    dense[..., 2] = torch.from_numpy(base[:, 2])
    return collect(cells, sparse.csr_array(base), true, sparse.csr_array(known)), dense, known, true


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


def test_rivals_that_are_alike_are_one_cell() -> None:
    """There are a thousand entities: one rule proposes all of them, the other a single one."""
    everyone, nobody = np.arange(1000), sparse.csr_array((1, 1000))
    cells = [
        cells_of(np.zeros(1000, dtype=np.int64), everyone, np.ones(1000), Template(2), 0),
        cells_of(np.zeros(1, dtype=np.int64), everyone[:1], np.ones(1), Template(2), 1),
    ]
    questions = collect(cells, sparse.csr_array((1000, 2)), np.zeros((1, 2)), nobody)
    assert sorted(questions.count.tolist()) == [1, 999]
    rivals = questions.logits(np.array([1.0, 2.0]))[1]
    assert rivals[0] == pytest.approx(np.log(999 * np.exp(0.5) + np.exp(0.5 + 1.0)))
