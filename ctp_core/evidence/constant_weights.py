"""How much rules with constants say beside chains: a weight for each predicate, held near that of all."""

import numpy as np
from jaxtyping import Float

from ctp_core.base.shrinkage import own_choices
from ctp_core.evidence.rules_model import RulesModel
from ctp_core.kb.knowledge_base import FactIds

WEIGHTS = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 36.0)
DEFAULT_WEIGHT = 4.0  # without validation facts


def choose_weights(model: RulesModel, facts: FactIds) -> tuple[Float[np.ndarray, " predicate"], float]:
    """(weights, their MRR on these facts): the best for all facts where a predicate has few of its own."""
    chosen = np.full(len(model.kb.predicates), DEFAULT_WEIGHT)
    if not len(facts):
        return chosen, 1.0
    ranks = np.stack([1 / found for found in model.ranks_by_constants(facts, WEIGHTS).values()])
    best = int(ranks.mean((1, 2)).argmax())
    chosen[:], reached = WEIGHTS[best], ranks[best]
    for predicate, own in own_choices(ranks, facts[:, 1]).items():
        chosen[predicate] = WEIGHTS[own]
        reached = np.where(facts[:, 1] == predicate, ranks[own], reached)
    return chosen, float(reached.mean())
