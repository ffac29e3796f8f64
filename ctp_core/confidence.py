"""How much a rule is believed, estimated from counts: support ÷ (cases in which the body holds + PESSIMISM).

Of facts, every confidence is this estimate. Of graphs it is the score of a proof by the rule alone
(`ctp_graphs/rules.py`): most steps of a proof are not labelled, so that counts would tell little.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

PESSIMISM = 5.0  # cases against a rule that are assumed beside those that were seen
Number = TypeVar("Number", float, NDArray[np.float64])


def confidence_of(support: Number, held: Number) -> Number:
    """The confidence of a rule whose body held `held` times, `support` times with its head; at most support ÷ held."""
    return support / (held + PESSIMISM)


def support_of(confidence: Number, held: Number) -> Number:
    """The support from which `confidence` was estimated."""
    return confidence * (held + PESSIMISM)
