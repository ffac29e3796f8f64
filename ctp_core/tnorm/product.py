"""The ⊗ of probabilities: the most probable proof, unifications taken as independent."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ctp_core.tnorm.base import DistanceTimes, Floats, Scores, TNorm

if TYPE_CHECKING:
    from torch import Tensor


class SummedDistance(DistanceTimes):
    """exp(-a) · exp(-b) = exp(-(a + b))."""

    def arrays(self, left: Any, right: Any, out: Floats | None = None) -> Floats:
        joined: Floats = np.add(left, right, out=out)
        return joined

    def tensors(self, left: "Tensor", right: "Tensor") -> "Tensor":
        return left + right

    def down(self, table: "Tensor") -> "tuple[Tensor, Tensor | None]":
        return table.sum(0), None


class Product(TNorm):
    """x ⊗ y = x · y."""

    name = "max-product"
    text = "the product of its steps"
    distances = SummedDistance()

    def times(self, left: "Tensor", right: "Tensor") -> "Tensor":
        return left * right

    def arrays(self, left: Scores, right: Scores) -> Scores:
        return left * right

    def numbers(self, left: float, right: float) -> float:
        return left * right
