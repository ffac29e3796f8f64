"""How much a rule is believed, from counts."""

import numpy as np
import pytest

from ctp_core.confidence import confidence_of, support_of


def test_few_cases_are_believed_less_than_many_of_the_same_precision() -> None:
    assert confidence_of(2, 2) == pytest.approx(2 / 7)
    assert confidence_of(95, 95) == pytest.approx(0.95)
    assert confidence_of(0, 0) == 0


def test_the_support_is_read_back_from_the_confidence() -> None:
    support, held = np.array([0.0, 3.0, 40.0]), np.array([2.0, 3.0, 55.0])
    assert support_of(confidence_of(support, held), held) == pytest.approx(support)
