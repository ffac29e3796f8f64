"""A setting of its own for a predicate with many facts."""

import numpy as np
import pytest

from ctp_core.base.shrinkage import COMMON, OWN_FROM, own_choices

FACTS = 10_000


@pytest.mark.parametrize(
    ("own", "found"), [(OWN_FROM // 2 - 1, {}), (OWN_FROM // 2, {1: 0}), (5 * OWN_FROM, {1: 1})], ids=str
)
def test_a_predicate_goes_its_own_way_where_its_facts_outweigh_the_others(own: int, found: dict[int, int]) -> None:
    """All others are ranked far better by setting 0, its own facts a little better by setting 1."""
    predicates = (np.arange(FACTS) < own).astype(np.int64)
    gain = 0.5 * COMMON * (1 - own / FACTS) / OWN_FROM / 2
    ranks = np.stack([np.where(predicates, 0.5, 1.0), np.where(predicates, 0.5 + gain, 0.5)])[:, None].repeat(2, axis=1)
    choices = own_choices(ranks, predicates)
    assert choices.pop(0) == 0
    assert choices == found
