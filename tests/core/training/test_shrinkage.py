"""A setting of its own for a predicate with many facts."""

import numpy as np
import pytest

from ctp_core.training.shrinkage import own_choice


@pytest.mark.parametrize(("own", "chosen"), [(2, 0), (1000, 1)])
def test_a_predicate_goes_its_own_way_only_where_its_facts_outweigh_the_others(own: int, chosen: int) -> None:
    """All others are ranked first by setting 0 and second by setting 1, its own facts the other way round."""
    rows = np.arange(10_000) < own
    ranks = np.stack([np.where(rows, 0.5, 1.0), np.where(rows, 1.0, 0.5)])[:, None].repeat(2, axis=1)
    assert own_choice(ranks, rows, common=200) == chosen
