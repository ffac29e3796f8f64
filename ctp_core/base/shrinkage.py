"""Chooses a setting for each predicate, shrunk towards the one that suits all: no predicate needs many facts."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ctp_core.base.evaluation import as_good

# The values of k that are tried: average facts that count beside those of a predicate.
STRENGTHS = (np.inf, 400.0, 200.0, 100.0, 50.0, 25.0, 12.0, 6.0, 3.0)
FOLDS = 5
CLEARLY = 2.0  # standard errors by which settings of their own must be better on unseen facts than common ones
TIE = 1e-9


def shrunk_choices(
    reciprocal_ranks: Float[np.ndarray, "setting way fact"],
    predicates: Int[np.ndarray, " fact"],
    num_predicates: int,
    common: int | None = None,
) -> Int[np.ndarray, " predicate"]:
    """The index of the setting of each predicate: its own where its facts say so clearly, else the common one.

    A predicate's setting is the best for its own facts together with k facts that are ranked as all are on average.
    How similar predicates are, which is what k stands for, is itself measured: of several k, cross-validation takes the
    largest unless a smaller one ranks unseen facts clearly better: a hundred facts can suit many settings by luck.
    `common` is the setting that is best for all unless it is given. On the given facts, the choice is never worse than
    the common setting.
    """
    table, everything = reciprocal_ranks.mean(1), np.arange(len(predicates))  # setting × fact
    common = int(table.sum(1).argmax()) if common is None else common
    folds = _folds(predicates)
    seen = [_Sums.of(table, predicates, num_predicates, np.flatnonzero(folds != fold)) for fold in range(FOLDS)]
    found = []
    for strength in STRENGTHS:
        chosen = np.stack([sums.choose(strength, common) for sums in seen])
        found.append(table[chosen[folds, predicates], everything])
    best = max(found, key=lambda ranks: float(ranks.mean()))
    strength = next(k for k, ranks in zip(STRENGTHS, found, strict=True) if as_good(ranks, best, CLEARLY))
    return _Sums.of(table, predicates, num_predicates, everything).choose(strength, common)


@dataclass(frozen=True)
class _Sums:
    """The reciprocal ranks of some facts, added up for each predicate."""

    own: Float[np.ndarray, "predicate setting"]
    num_facts: int

    @classmethod
    def of(
        cls,
        table: Float[np.ndarray, "setting fact"],
        predicates: Int[np.ndarray, " fact"],
        num_predicates: int,
        facts: Int[np.ndarray, " some"],
    ) -> "_Sums":
        sums = (np.bincount(predicates[facts], weights=row[facts], minlength=num_predicates) for row in table)
        return cls(np.stack(list(sums), 1), len(facts))

    def choose(self, strength: float, common: int) -> Int[np.ndarray, " predicate"]:
        if not np.isfinite(strength):
            return np.full(len(self.own), common)
        prior = self.own.sum(0) / max(1, self.num_facts)
        prior[common] = prior.max() + TIE  # a predicate without facts takes the common setting
        return np.asarray((self.own + strength * prior).argmax(1))


def _folds(predicates: Int[np.ndarray, " fact"]) -> Int[np.ndarray, " fact"]:
    """Deals the facts of each predicate out in turn, in an order that does not depend on that of the facts' names."""
    shuffled = np.random.default_rng(0).permutation(len(predicates))
    order = shuffled[np.argsort(predicates[shuffled], kind="stable")]
    folds = np.zeros(len(predicates), dtype=np.int64)
    folds[order] = np.arange(len(predicates)) % FOLDS
    return folds
