"""How much work a preset may spend on a KB."""

import pytest

from ctp_core.base.budget import budget_seconds


@pytest.mark.parametrize(
    ("facts", "seconds"), [(1, 60), (20_000, 60), (100_000, 240), (1_000_000, 900), (10_000_000, 3600)]
)
def test_fast_has_the_seconds_that_are_stated(facts: int, seconds: float) -> None:
    assert budget_seconds("fast", facts) == pytest.approx(seconds)


def test_between_the_points_the_budget_is_a_straight_line_of_logarithms() -> None:
    middle = round((1e5 * 1e6) ** 0.5)
    assert budget_seconds("fast", middle) == pytest.approx((240 * 900) ** 0.5, rel=1e-4)


def test_beyond_the_last_point_the_budget_grows_as_before() -> None:
    assert budget_seconds("fast", 100_000_000) == pytest.approx(4 * 3600)


def test_the_budget_never_falls_with_more_facts() -> None:
    seconds = [budget_seconds("fast", round(1.3**power)) for power in range(80)]
    assert seconds == sorted(seconds)


def test_best_has_a_quarter_of_an_hour_or_four_times_fast() -> None:
    assert budget_seconds("best", 100) == 900
    assert budget_seconds("best", 1_000_000) == pytest.approx(3600)
