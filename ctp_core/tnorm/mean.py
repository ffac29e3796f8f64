"""The pairwise mean of the published code, folded from the left. Not a t-norm proper: it is not associative."""

from typing import TYPE_CHECKING

from ctp_core.tnorm.base import Scores, TNorm

if TYPE_CHECKING:
    from torch import Tensor


class Mean(TNorm):
    """x ⊗ y = (x + y) / 2.

    What cannot be proved counts as −∞, because half of a missing proof is not half a proof. The search could not bound
    a mean of scores by distances, so there is no ⊗ on distances.
    """

    name = "max-mean"
    text = "the mean of its steps, prover `exact` only"
    zero = float("-inf")
    associative = False
    start = 0.0

    def times(self, left: "Tensor", right: "Tensor") -> "Tensor":
        return (left + right) / 2

    def arrays(self, left: Scores, right: Scores) -> Scores:
        return (left + right) / 2

    def numbers(self, left: float, right: float) -> float:
        return (left + right) / 2

    # The left fold of pairwise means is a weighted sum: the first two parts weigh least and equally.

    def join(self, total: float, value: float, weight: float) -> float:
        return total + weight * value

    def combine(self, closed: float, rest: float) -> float:
        return closed + rest

    def weights(self, count: int, weight: float) -> list[float]:
        return [weight * 0.5 ** (count - max(1, place)) for place in range(count)]
