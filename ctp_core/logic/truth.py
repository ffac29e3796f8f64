"""How the scores of atoms make the score of a question: `and` by a t-norm, `or` by its dual, `not` by 1 minus."""

from dataclasses import dataclass

import numpy as np

from ctp_core.errors import BadQuestion
from ctp_core.tnorm.base import Scores, TNorm
from ctp_core.tnorm.lukasiewicz import Lukasiewicz
from ctp_core.tnorm.minimum import Minimum
from ctp_core.tnorm.product import Product

# As the request names them. The mean is not here: it is not associative, so that the order of atoms would count.
TNORM_OF: dict[str, TNorm] = {"product": Product(), "min": Minimum(), "lukasiewicz": Lukasiewicz()}
DEFAULT = "product"


@dataclass(frozen=True)
class Truth:
    """Scores are arrays that broadcast against each other, from 0 to 1. No result of `both` exceeds what it joins."""

    tnorm: TNorm

    @classmethod
    def named(cls, name: str) -> "Truth":
        """Raises BadQuestion."""
        if name not in TNORM_OF:
            raise BadQuestion(f"tnorm {name!r} is unknown: choose from {', '.join(TNORM_OF)}")
        return cls(TNORM_OF[name])

    def both(self, left: Scores, right: Scores) -> Scores:
        return self.tnorm.arrays(left, right)

    def either(self, left: Scores, right: Scores) -> Scores:
        """The dual: 1 - (1 - x) ⊗ (1 - y)."""
        return np.asarray(1 - self.tnorm.arrays(1 - left, 1 - right))

    @staticmethod
    def negated(score: Scores) -> Scores:
        return np.asarray(1 - score)
