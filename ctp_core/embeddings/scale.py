"""Brings the products of an embedding to the scale of logits, by which a hybrid can weigh them.

Logistic regression of true facts against random ones: only the scale matters, and it is not a probability yet.
"""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ctp_core.base.goals import GoalIds, Score
from ctp_core.kb.knowledge_base import FactIds, FactSet, FactsKB
from ctp_core.kb.splits import FactsSplit

CORRUPTIONS = 20  # random facts for each true one: the base rate that the sigmoid assumes
MIN_SCALE = 1e-3  # a score that says nothing keeps its order all the same
SEED = 0


def fit_scale(score: Score, kb: FactsKB, split: FactsSplit) -> tuple[float, float]:
    """(scale, offset) from true facts and random ones of the same predicates that are not known to be true.

    Uses validation facts where there are any. Training facts are fitted too well: without smoothing, the scale would
    grow without bound.
    """
    learnt = not split.measurable
    return _fit([(score, split.train if learnt else split.valid)], kb, smooth=learnt)


def _fit(parts: Iterable[tuple[Score, FactIds]], kb: FactsKB, *, smooth: bool = False) -> tuple[float, float]:
    """`smooth`: the targets of Platt 1999, as if each label had been seen once more rightly and once wrongly."""
    scored: list[tuple[Float[np.ndarray, " fact"], float]] = []
    for score, facts in parts:
        for asked, label in ((facts, 1.0), (_random_facts(kb, facts), 0.0)):
            scored.append((score(GoalIds.hiding(asked, None))[:, 0], label))
    values = np.concatenate([found for found, _ in scored])
    true = np.concatenate([np.full(len(found), label) for found, label in scored])
    spread = float(values.std()) or 1.0
    if smooth:
        num_true = true.sum()
        true = np.where(true == 1, (num_true + 1) / (num_true + 2), 1 / (len(true) - num_true + 2))

    def loss(parameters: NDArray[np.float64]) -> float:
        logits = np.exp(parameters[0]) * values / spread + parameters[1]
        return float((np.logaddexp(0, logits) - true * logits).mean())

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
    stated = np.concatenate([kb.splits.get(split, facts) for split in ("train", "valid")])
    return false[~FactSet(stated, len(kb.entities), len(kb.predicates)).states(false)]
