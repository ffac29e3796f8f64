"""Kernels: how similar two vectors are, in [0, 1]."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ctp_core.shapes import Float


@dataclass(frozen=True)
class ExponentialKernel:
    """K(x, y) = exp(−slope · ‖x − y‖₂). The distance is not squared; K is 1 only where x = y."""

    slope: float = 1.0

    def from_distance(self, distance: Tensor) -> Tensor:
        return torch.exp(-self.slope * distance)

    def pairwise(self, left: Float[Tensor, "m dim"], right: Float[Tensor, "n dim"]) -> Float[Tensor, "m n"]:
        """K of every left vector with every right one."""
        # Distances by a matrix product lose all digits near 0, exactly where two predicates are the same.
        return self.from_distance(torch.cdist(left, right, compute_mode="donot_use_mm_for_euclid_dist"))

    def elementwise(
        self, left: Float[Tensor, "*batch dim"], right: Float[Tensor, "*batch dim"]
    ) -> Float[Tensor, "*batch"]:
        """K of each left vector with the right one at the same place."""
        # The norm has no gradient at 0; torch takes 0 there, which keeps equal vectors where they are.
        return self.from_distance(torch.linalg.vector_norm(left - right, dim=-1))
