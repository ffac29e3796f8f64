"""log Σ exp of the products of queries with all candidates: most of the time that an embedding takes to train."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


class _LogPartition(torch.autograd.Function):
    """The table of products becomes that of the probabilities in place: what is as large as that is written once."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, candidates: Tensor, log_weights: Tensor | None) -> Tensor:
        table = queries @ candidates.T
        if log_weights is not None:
            table += log_weights
        top = table.amax(1, keepdim=True)
        sums = table.sub_(top).exp_().sum(1, keepdim=True)
        ctx.save_for_backward(queries, candidates, table, sums)
        return (top + sums.log()).squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        queries, candidates, table, sums = ctx.saved_tensors
        table.mul_(gradient[:, None] / sums)
        return table @ candidates, table.T @ queries, None


def log_partition(
    queries: Float[Tensor, "query width"],
    candidates: Float[Tensor, "candidate width"],
    log_weights: Float[Tensor, "query candidate"] | None = None,
) -> Float[Tensor, " query"]:
    """torch.logsumexp(queries @ candidates.T + log_weights, 1) with its gradient; none for the weights."""
    return _LogPartition.apply(queries, candidates, log_weights)  # type: ignore[no-any-return,no-untyped-call]
