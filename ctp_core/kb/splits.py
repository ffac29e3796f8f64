"""Divides the facts of a KB into those to learn from and those to validate on."""

from dataclasses import dataclass, replace

import numpy as np

from ctp_core.errors import DataError
from ctp_core.kb.knowledge_base import FactIds, FactsKB, sorted_facts

HOLD_OUT_FROM = 500  # facts; a smaller KB cannot spare any
LEAST_VALID = 10  # facts; fewer tell nothing about settings or scores
MAX_RANKED_CELLS = 1e8  # facts times entities
LEAST_RANKED = 200  # facts, however many entities there are
HOLD_OUT_SHARE = 0.05


@dataclass(frozen=True)
class FactsSplit:
    """`valid` is empty for a tiny KB without validation facts: training then uses every fact and runs to its end."""

    train: FactIds
    valid: FactIds

    @classmethod
    def of(cls, kb: FactsKB) -> "FactsSplit":
        """The KB's own validation facts; where these are too few, also a random 5 % of the facts that it can spare."""
        stated = kb.splits.get("train", np.zeros((0, 3), dtype=np.int64))
        train = sorted_facts(stated, len(kb.entities), len(kb.predicates))
        if not len(train):
            raise DataError("the KB has no training facts: there is nothing to learn from")
        valid = kb.splits.get("valid", train[:0])
        if len(valid) >= LEAST_VALID or len(train) < HOLD_OUT_FROM:
            return cls(train, valid)
        order = np.random.default_rng(0).permutation(len(train))
        held_out = order[: round(HOLD_OUT_SHARE * len(train))]
        return cls(np.delete(train, held_out, axis=0), np.concatenate([valid, train[held_out]]))

    @property
    def measurable(self) -> bool:
        """Whether there are enough validation facts to compare settings on, or to calibrate scores by."""
        return len(self.valid) >= LEAST_VALID

    def visible(self, kb: FactsKB) -> FactsKB:
        """The KB without the held-out facts, so that none of them can prove itself when it is asked for."""
        return replace(kb, splits={**kb.splits, "train": self.train, "valid": self.valid})

    def valid_sample(self, size: int) -> FactIds:
        """At most `size` validation facts, always the same ones, to look at during training."""
        if len(self.valid) <= size:
            return self.valid
        return self.valid[np.sort(np.random.default_rng(0).permutation(len(self.valid))[:size])]


def affordable(most: int, num_entities: int) -> int:
    """Returns how many facts, at most `most`, can be ranked among all entities within a bounded time."""
    return min(most, max(LEAST_RANKED, int(MAX_RANKED_CELLS / max(1, num_entities))))
