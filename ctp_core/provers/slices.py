"""Ranges of rows laid end to end."""

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


def slices(starts: Ids, ends: Ids) -> tuple[Ids, Ids]:
    """The slices starts[i]:ends[i] end to end, with the i each element came from."""
    lengths = ends - starts
    which = np.repeat(np.arange(len(starts)), lengths)
    offsets = np.cumsum(lengths) - lengths
    return which, np.arange(len(which)) + (starts - offsets)[which]
