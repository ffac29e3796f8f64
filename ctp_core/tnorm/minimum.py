"""The paper's ⊗: a proof is as good as its worst unification."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ctp_core.tnorm.base import DistanceTimes, Floats, Scores, TNorm

if TYPE_CHECKING:
    from torch import Tensor


class LargerDistance(DistanceTimes):
    """The smaller score is the larger distance."""

    def arrays(self, left: Any, right: Any, out: Floats | None = None) -> Floats:
        joined: Floats = np.maximum(left, right, out=out)
        return joined

    def tensors(self, left: "Tensor", right: "Tensor") -> "Tensor":
        return left.maximum(right)

    def down(self, table: "Tensor") -> "tuple[Tensor, Tensor | None]":
        found, decisive = table.max(0)
        return found, decisive


class Minimum(TNorm):
    """x ⊗ y = min(x, y)."""

    name = "max-min"
    text = "its weakest step"
    idempotent = True
    distances = LargerDistance()

    def times(self, left: "Tensor", right: "Tensor") -> "Tensor":
        return left.minimum(right)

    def arrays(self, left: Scores, right: Scores) -> Scores:
        return np.asarray(np.minimum(left, right))

    def numbers(self, left: float, right: float) -> float:
        return min(left, right)
