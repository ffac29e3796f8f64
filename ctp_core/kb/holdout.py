"""Holds facts or graphs of a KB that came as one file out of training: to validate on, and to test on."""

from dataclasses import replace

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ctp_core.errors import DataError
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import SPLITS, FactsKB, KnowledgeBase

SEED = 0  # the same KB is always divided in the same way
MOST = 0.5  # of all, for one split


class Holdout(BaseModel):
    """Shares of the training data to hold out."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"valid": 0.05, "test": 0.1}})

    valid: float = Field(0.0, ge=0, le=MOST, description="Share to validate on, at most 0.5.")
    test: float = Field(0.0, ge=0, le=MOST, description="Share to test on, at most 0.5.")

    @model_validator(mode="after")
    def _holds_something(self) -> "Holdout":
        if not self.shares or sum(self.shares.values()) >= 1:
            raise ValueError("give `valid`, `test` or both as shares above 0 that leave something to train on")
        return self

    @property
    def shares(self) -> dict[str, float]:
        return {split: share for split, share in (("valid", self.valid), ("test", self.test)) if share > 0}

    def sizes(self, number: int) -> dict[str, int]:
        """How many of so many each split gets, at least one; raises DataError where none is left to train on."""
        sizes = {split: max(1, round(share * number)) for split, share in self.shares.items()}
        if sum(sizes.values()) >= number:
            raise DataError(f"the KB has only {number} to train on: too few to hold {sum(sizes.values())} of them out")
        return sizes


def hold_out(kb: KnowledgeBase, holdout: Holdout) -> KnowledgeBase:
    """The KB with some of its training data as other splits; raises DataError where it has these, or too little."""
    taken = [split for split in holdout.shares if split in kb.splits]
    if taken:
        raise DataError(f"the KB has a split {taken[0]!r} already: leave it out of `holdout`")
    rows = _dealt(len(kb.splits["train"]), holdout)
    if isinstance(kb, FactsKB):
        facts = {**kb.splits, **{split: kb.splits["train"][some] for split, some in rows.items()}}
        return replace(kb, splits={split: facts[split] for split in SPLITS if split in facts})
    train = kb.splits["train"]
    return graphs_kb({**kb.splits, **{split: [train[at] for at in some.tolist()] for split, some in rows.items()}})


def _dealt(number: int, holdout: Holdout) -> dict[str, np.ndarray]:
    """Which rows each split gets, in their order; train first."""
    order = np.random.default_rng(SEED).permutation(number)
    sizes = holdout.sizes(number)
    left = number - sum(sizes.values())
    rows, start = {"train": np.sort(order[:left])}, left
    for split, size in sizes.items():
        rows[split] = np.sort(order[start : start + size])
        start += size
    return rows
