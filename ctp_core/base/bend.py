"""A bent line from logits to logits: what a slope and a level cannot say about scores.

Where a first proof lifts an answer from next to nothing to .6, and further proofs add little, probabilities rise, lie
flat and rise again. A bend is a line through KNOTS whose pieces are all rising, so that no two answers change places.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from jaxtyping import Float

KNOTS = np.array([-4.0, -2.0, -0.5, 1.0, 2.5])  # on the logit scale: scores of .02, .12, .38, .73 and .92
FIXED = -2.0  # stays where it is; level and slope move it
LOWS, HIGHS = np.append(-np.inf, KNOTS), np.append(KNOTS, np.inf)


def lengths(logits: Float[np.ndarray, " logit"]) -> Float[np.ndarray, "logit piece"]:
    """How much of each piece lies between FIXED and a logit, negative below it; they add up to logit - FIXED."""
    return np.asarray(np.clip(logits[:, None], LOWS, HIGHS) - np.clip(FIXED, LOWS, HIGHS))


@dataclass(frozen=True)
class Bend:
    """The slope of each piece, all positive."""

    slopes: Float[np.ndarray, " piece"]

    @classmethod
    def none(cls) -> Self:
        return cls(np.ones(len(LOWS)))

    @property
    def straight(self) -> bool:
        return bool((self.slopes == 1).all())

    @classmethod
    def read(cls, values: Any) -> Self:
        """The inverse of `slopes.tolist()`; straight for earlier versions, which had none. Raises ValueError."""
        return cls.none() if values is None else cls(np.array(values, dtype=np.float64).reshape(len(LOWS)))

    def __call__(self, logits: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        if self.straight:
            return logits
        flat = np.asarray(logits, dtype=np.float64).ravel()
        return np.asarray(FIXED + lengths(flat) @ self.slopes).reshape(np.shape(logits))
