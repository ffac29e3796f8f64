"""The written-out log Σ exp is torch's, and so is its gradient."""

import pytest
import torch

from ctp_core.embeddings.log_partition import log_partition


@pytest.mark.parametrize("weighed", [False, True])
def test_values_and_gradients_are_those_of_logsumexp_also_where_products_are_large(weighed: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    queries = (30 * torch.randn(5, 3, generator=generator, dtype=torch.float64)).requires_grad_()
    candidates = (30 * torch.randn(7, 3, generator=generator, dtype=torch.float64)).requires_grad_()
    weights = torch.randn(5, generator=generator, dtype=torch.float64)
    log_weights = torch.randn(5, 7, generator=generator, dtype=torch.float64) if weighed else torch.zeros(5, 7)

    expected = torch.logsumexp(queries @ candidates.T + log_weights, 1)
    gradients = torch.autograd.grad((weights * expected).sum(), (queries, candidates))
    found = log_partition(queries, candidates, log_weights if weighed else None)

    assert torch.allclose(found, expected)
    for one, other in zip(torch.autograd.grad((weights * found).sum(), (queries, candidates)), gradients, strict=True):
        assert torch.allclose(one, other)
