"""How much rules with constants say beside chains: one weight, and another where a predicate clearly wants it."""

import numpy as np
from jaxtyping import Float

from ctp_core.datasets.kb import FactIds
from ctp_core.models.rules_model import RulesModel

WEIGHTS = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)
DEFAULT_WEIGHT = 4.0  # without validation facts
CLEARLY = 2.0  # standard errors


def choose_weights(model: RulesModel, facts: FactIds) -> tuple[Float[np.ndarray, " predicate"], float]:
    """(weights, their MRR on these facts): the best for all facts, unless a predicate's own is clearly better."""
    chosen = np.full(len(model.kb.predicates), DEFAULT_WEIGHT)
    if not len(facts):
        return chosen, 1.0
    ranks = {weight: 1 / found for weight, found in model.ranks_by_constants(facts, WEIGHTS).items()}
    best = max(WEIGHTS, key=lambda weight: float(ranks[weight].mean()))
    chosen[:] = best
    reached = ranks[best].copy()
    for predicate in np.unique(facts[:, 1]).tolist():
        rows = facts[:, 1] == predicate
        own = max(WEIGHTS, key=lambda weight: float(ranks[weight][:, rows].mean()))
        gain = (ranks[own] - ranks[best])[:, rows]
        if gain.mean() > CLEARLY * gain.std() / np.sqrt(gain.size):
            chosen[predicate], reached[:, rows] = own, ranks[own][:, rows]
    return chosen, float(reached.mean())
