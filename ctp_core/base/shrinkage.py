"""A setting of its own for each predicate with many facts, held near what serves all of them."""

import numpy as np
from jaxtyping import Float, Int

OWN_FROM = 200  # questions of a predicate; fewer choose nothing of their own
COMMON = 50  # questions, ranked as all are on average, that are heard beside a predicate's own


def own_choices(
    reciprocal_ranks: Float[np.ndarray, "setting way fact"], predicates: Int[np.ndarray, " fact"]
) -> dict[int, int]:
    """The setting that ranks the facts of a predicate best, for those predicates that have enough."""
    means, chosen = reciprocal_ranks.mean((1, 2)), {}
    for predicate in np.flatnonzero(2 * np.bincount(predicates) >= OWN_FROM).tolist():
        own = reciprocal_ranks[:, :, predicates == predicate].sum((1, 2))
        chosen[predicate] = int((own + COMMON * means).argmax())
    return chosen
