"""A setting for each predicate, held near what serves all of them."""

import numpy as np
from jaxtyping import Bool, Float


def own_choice(
    reciprocal_ranks: Float[np.ndarray, "setting way fact"], rows: Bool[np.ndarray, " fact"], common: float
) -> int:
    """The setting that ranks these facts best, together with `common` questions that are ranked as all are on average:
    few facts choose what all do, many their own."""
    return int((reciprocal_ranks[:, :, rows].sum((1, 2)) + common * reciprocal_ranks.mean((1, 2))).argmax())
