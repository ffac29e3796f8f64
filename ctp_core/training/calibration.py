"""Makes a probability of a ranking score: sigmoid(scale · score + offset), by logistic regression."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ctp_core.datasets.kb import FactIds, FactsKB

CORRUPTIONS = 20  # random facts for each true one: the base rate that the sigmoid assumes
MIN_SCALE = 1e-3  # a score that says nothing keeps its order all the same
SEED = 0


def fit_calibration(
    score: Callable[[FactIds], Float[np.ndarray, " fact"]], kb: FactsKB, facts: FactIds
) -> tuple[float, float]:
    """(scale, offset) from true facts and random ones of the same predicates that are not known to be true."""
    false = _random_facts(kb, facts)
    values = np.concatenate([score(facts), score(false)])
    true = np.concatenate([np.ones(len(facts)), np.zeros(len(false))])
    spread = float(values.std()) or 1.0

    def loss(parameters: NDArray[np.float64]) -> float:
        logits = np.exp(parameters[0]) * values / spread + parameters[1]
        return float(np.logaddexp(0, np.where(true == 1, -logits, logits)).mean())

    # Most of the time that all of the models take to load, and needed only at the end of a training.
    from scipy.optimize import minimize  # noqa: PLC0415

    fitted = minimize(loss, np.array([0.0, -1.0]), method="Nelder-Mead")
    scale = max(MIN_SCALE, float(np.exp(fitted.x[0])) / spread)
    return scale, float(fitted.x[1])


def _random_facts(kb: FactsKB, facts: FactIds) -> FactIds:
    choose = np.random.default_rng(SEED)
    false = np.repeat(facts, CORRUPTIONS, axis=0)
    place = choose.integers(0, 2, len(false)) * 2
    false[np.arange(len(false)), place] = choose.integers(0, len(kb.entities), len(false))
    known = {tuple(fact) for split in kb.splits.values() for fact in split.tolist()}
    kept = [fact for fact in false.tolist() if tuple(fact) not in known]
    return np.array(kept, dtype=np.int64).reshape(-1, 3)
