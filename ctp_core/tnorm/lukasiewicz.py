"""The ⊗ of Łukasiewicz: doubts add up, and with too many of them the score is 0."""

from typing import TYPE_CHECKING

import numpy as np

from ctp_core.tnorm.base import Scores, TNorm

if TYPE_CHECKING:
    from torch import Tensor


class Lukasiewicz(TNorm):
    """x ⊗ y = max(0, x + y - 1).

    Computed as min - (1 - max): ⊗ with 1 then changes no bit, and no rounding makes a proof better than its worst part,
    so that scores of cyclic graphs settle. On distances it would depend on the slope and reach ∞, so there is none.
    """

    name = "max-lukasiewicz"
    text = "1 minus the sum of the doubts of its steps"

    def times(self, left: "Tensor", right: "Tensor") -> "Tensor":
        return (left.minimum(right) - (1 - left.maximum(right))).clamp(min=0.0)

    def arrays(self, left: Scores, right: Scores) -> Scores:
        return np.asarray(np.maximum(0.0, np.minimum(left, right) - (1 - np.maximum(left, right))))

    def numbers(self, left: float, right: float) -> float:
        return max(0.0, min(left, right) - (1 - max(left, right)))
