"""⊕: how the scores of several proofs of one goal become one.

Models answer by `Best` with any ⊗: their score is the score of one proof. `CappedSum` and `NoisyOr` are relaxations for
training: they give every proof a gradient.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from ctp_core.shapes import Float, Int
from ctp_core.tnorm.base import TNorm
from ctp_core.tnorm.registry import TNORMS

# Elements of the largest intermediate of a max-contraction: 16 MB of floats stays in cache on common machines.
CONTRACT_CHUNK = 1 << 22
# What noisy-or takes a sure proof for: log(1 − 1) is not finite. A factor and no clamp, so that it has a gradient; so
# far from 1 that float32 still tells 1 − x apart from its neighbours.
ALMOST_SURE = 1 - 1e-6


class Aggregation(ABC):
    """⊕ on tensors of any shape, with the ⊗ that it works with: together they are a semiring."""

    tnorm: TNorm

    @property
    def zero(self) -> float:
        return self.tnorm.zero

    @abstractmethod
    def reduce(self, scores: Tensor, dim: int) -> Tensor:
        """⊕ along one axis."""

    @abstractmethod
    def scatter(
        self, scores: Float[Tensor, "row ..."], index: Int[Tensor, " row"], size: int
    ) -> Float[Tensor, "size ..."]:
        """⊕ of the rows that share an index; `zero` where there is none."""

    def plus(self, left: Tensor, right: Tensor) -> Tensor:
        return self.reduce(torch.stack([left + torch.zeros_like(right), right + torch.zeros_like(left)]), dim=0)

    def times(self, left: Tensor, right: Tensor) -> Tensor:
        """⊗ of two tensors that broadcast against each other."""
        return self.tnorm.times(left, right)

    def product(self, parts: Sequence[Tensor]) -> Tensor:
        """⊗ of several tensors, left to right."""
        return self.tnorm.product(parts)

    def contract(
        self, scores: Float[Tensor, "row inner"], weights: Float[Tensor, "inner column"]
    ) -> Float[Tensor, "row column"]:
        """The matrix product by ⊕ and ⊗."""
        step = max(1, CONTRACT_CHUNK // max(1, weights.numel()))
        chunks = [
            self.reduce(self.times(scores[start : start + step, :, None], weights[None]), dim=1)  # [row, inner, column]
            for start in range(0, scores.shape[0], step)
        ]
        return torch.cat(chunks) if chunks else scores.new_full((0, weights.shape[1]), self.zero)


class Best(Aggregation):
    """⊕ = max, as models answer. Its gradient goes to the best proof; equal ones share it."""

    def __init__(self, tnorm: TNorm) -> None:
        self.tnorm = tnorm

    def reduce(self, scores: Tensor, dim: int) -> Tensor:
        return scores.amax(dim)

    def plus(self, left: Tensor, right: Tensor) -> Tensor:
        return torch.maximum(left, right)

    def contract(
        self, scores: Float[Tensor, "row inner"], weights: Float[Tensor, "inner column"]
    ) -> Float[Tensor, "row column"]:
        if torch.is_grad_enabled():
            return super().contract(scores, weights)
        # One pass per inner index needs no cube in memory: several times faster, but a long chain for autograd.
        best = scores.new_full((scores.shape[0], weights.shape[1]), self.zero)
        for column, row in zip(scores.T, weights, strict=True):
            torch.maximum(best, self.times(column[:, None], row[None]), out=best)
        return best

    def scatter(
        self, scores: Float[Tensor, "row ..."], index: Int[Tensor, " row"], size: int
    ) -> Float[Tensor, "size ..."]:
        out = scores.new_full((size, *scores.shape[1:]), self.zero)
        spread = index.view(-1, *(1,) * (scores.dim() - 1)).expand_as(scores)
        return out.scatter_reduce(0, spread, scores, reduce="amax")


class Relaxation(Aggregation):
    """For training. ⊗ is the product, whatever the model answers with: it has a slope everywhere."""

    tnorm = TNORMS["max-product"]


class CappedSum(Relaxation):
    """⊕ = sum, cut at 1 so that scores stay in [0, 1]."""

    def reduce(self, scores: Tensor, dim: int) -> Tensor:
        return scores.sum(dim).clamp(max=1.0)

    def scatter(
        self, scores: Float[Tensor, "row ..."], index: Int[Tensor, " row"], size: int
    ) -> Float[Tensor, "size ..."]:
        return scores.new_zeros((size, *scores.shape[1:])).index_add(0, index, scores).clamp(max=1.0)

    def contract(
        self, scores: Float[Tensor, "row inner"], weights: Float[Tensor, "inner column"]
    ) -> Float[Tensor, "row column"]:
        return (scores @ weights).clamp(max=1.0)


class NoisyOr(Relaxation):
    """⊕ = 1 − ∏(1 − x): any of several independent proofs."""

    def reduce(self, scores: Tensor, dim: int) -> Tensor:
        return -torch.expm1(self._missed(scores).sum(dim))

    def plus(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right - left * right

    def scatter(
        self, scores: Float[Tensor, "row ..."], index: Int[Tensor, " row"], size: int
    ) -> Float[Tensor, "size ..."]:
        missed = scores.new_zeros((size, *scores.shape[1:])).index_add(0, index, self._missed(scores))
        return -torch.expm1(missed)

    @staticmethod
    def _missed(scores: Tensor) -> Tensor:
        """log(1 − x): by logarithms a score of 1e-11 counts, where 1 − x is 1 for a float."""
        return torch.log1p(-ALMOST_SURE * scores)
