"""The table of presets: how much work each may spend on a KB, and that names are exact."""

import pytest

from ctp_core.errors import ConfigError
from ctp_core.kb.profile import Profile
from ctp_core.methods import preset_for
from ctp_core.presets import PRESETS


@pytest.mark.parametrize(
    ("facts", "seconds"), [(1, 60), (20_000, 60), (100_000, 240), (1_000_000, 900), (10_000_000, 3600)]
)
def test_fast_has_the_seconds_that_are_stated(facts: int, seconds: float) -> None:
    assert PRESETS["fast"].budget_seconds(facts) == pytest.approx(seconds)


def test_between_the_points_the_budget_is_a_straight_line_of_logarithms() -> None:
    middle = round((1e5 * 1e6) ** 0.5)
    assert PRESETS["fast"].budget_seconds(middle) == pytest.approx((240 * 900) ** 0.5, rel=1e-4)


def test_beyond_the_last_point_the_budget_grows_as_before() -> None:
    assert PRESETS["fast"].budget_seconds(100_000_000) == pytest.approx(4 * 3600)


def test_the_budget_never_falls_with_more_facts() -> None:
    seconds = [PRESETS["fast"].budget_seconds(round(1.3**power)) for power in range(80)]
    assert seconds == sorted(seconds)


def test_best_has_a_quarter_of_an_hour_or_four_times_fast() -> None:
    assert PRESETS["best"].budget_seconds(100) == 900
    assert PRESETS["best"].budget_seconds(1_000_000) == pytest.approx(3600)


@pytest.mark.parametrize("name", ["", "Fast", "paper-short", "papers"])
@pytest.mark.parametrize("method", ["ctp", "proofs", "neurallp"])
def test_a_name_that_no_preset_has_is_refused(name: str, method: str) -> None:
    profile = Profile(kind="facts", num_facts=10, num_entities=5, num_predicates=2)
    with pytest.raises(ConfigError, match="choose from fast, best, paper, paper-long"):
        preset_for(profile, name, method, None)
