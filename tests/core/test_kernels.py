"""Kernels and the unification of whole atoms."""

import math

import torch

from ctp_core.ctp_facts.unification import distance
from ctp_core.kernels import ExponentialKernel


def test_the_distance_is_not_squared() -> None:
    kernel = ExponentialKernel(slope=2.0)
    x, y = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]])
    assert math.isclose(kernel.pairwise(x, y).item(), math.exp(-10.0), rel_tol=1e-6)
    assert math.isclose(kernel.elementwise(x, y).item(), math.exp(-10.0), rel_tol=1e-6)


def test_equal_vectors_meet_with_exactly_one_and_a_finite_gradient() -> None:
    x = torch.randn(40, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    kernel = ExponentialKernel()
    table = kernel.pairwise(x, x)
    assert (table.diagonal() == 1).all()
    (table.sum() + kernel.elementwise(x, x.detach()).sum()).backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def test_concat_adds_squared_distances_and_per_symbol_takes_the_worst() -> None:
    kernel = ExponentialKernel()
    squared = [torch.tensor(x) for x in (9.0, 16.0, 0.0)]
    assert math.isclose(kernel.from_distance(distance("concat", *squared)).item(), math.exp(-5.0), rel_tol=1e-6)
    assert math.isclose(kernel.from_distance(distance("per_symbol", *squared)).item(), math.exp(-4.0), rel_tol=1e-6)
