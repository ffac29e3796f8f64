"""The contract of ⊗. Imports no torch, because settings name a t-norm and say where it works."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.floating[Any]]
Scores = NDArray[np.float64]


class DistanceTimes(ABC):
    """⊗ on distances instead of scores, where a score is exp(-slope · distance): distance 0 is ⊗'s one."""

    @abstractmethod
    def arrays(self, left: Any, right: Any, out: Floats | None = None) -> Floats:
        """⊗ of two arrays or numbers that broadcast against each other."""

    @abstractmethod
    def tensors(self, left: "Tensor", right: "Tensor") -> "Tensor":
        """⊗ of two tensors, with a gradient."""

    @abstractmethod
    def down(self, table: "Tensor") -> "tuple[Tensor, Tensor | None]":
        """⊗ of each column of [place, proof], and the place that decided it, or None where every place counts."""


class TNorm(ABC):
    """⊗: how the parts of one proof make its score. On tensors, on arrays, on numbers, and on distances."""

    name: ClassVar[str]  # name of the semiring with this ⊗ and ⊕ = max
    text: ClassVar[str]  # what the score of a proof is, for people
    zero: ClassVar[float] = 0.0  # the score of what cannot be proved
    one: ClassVar[float] = 1.0
    associative: ClassVar[bool] = True
    idempotent: ClassVar[bool] = False  # x ⊗ x = x: parts above the score of a proof do not change it
    distances: ClassVar[DistanceTimes | None] = None  # None where ⊗ cannot be computed from distances

    @abstractmethod
    def times(self, left: "Tensor", right: "Tensor") -> "Tensor":
        """⊗ of two tensors that broadcast against each other."""

    @abstractmethod
    def arrays(self, left: Scores, right: Scores) -> Scores:
        """⊗ of two NumPy arrays."""

    @abstractmethod
    def numbers(self, left: float, right: float) -> float: ...

    def product(self, parts: Sequence["Tensor"]) -> "Tensor":
        """⊗ of several tensors, left to right."""
        return reduce(self.times, parts)

    # On proofs that are not finished: the total of what is closed, and a weight for each part that is open.

    start: ClassVar[float] = 1.0  # the total of no parts

    def join(self, total: float, value: float, weight: float) -> float:
        """The total with one more part of this weight."""
        del weight
        return self.numbers(total, value)

    def combine(self, closed: float, rest: float) -> float:
        """The total of two totals."""
        return self.numbers(closed, rest)

    def weights(self, count: int, weight: float) -> list[float]:
        """The weights of the `count` parts of a proof that itself has `weight`."""
        return [weight] * count

    def of(self, scores: Sequence[float]) -> float:
        """⊗ of the parts of a finished proof, left to right."""
        total = self.start
        for score, weight in zip(scores, self.weights(len(scores), 1.0), strict=True):
            total = self.join(total, score, weight)
        return total
