"""How a hybrid shares its budget, its seed and its epochs with its parts."""

import pytest

from ctp_core.hybrid.config import HybridConfig, hybrid_preset
from ctp_core.kb.profile import Profile
from ctp_core.presets import PRESETS

PROFILE = Profile(kind="facts", num_facts=5000, num_entities=1000, num_predicates=20)


def test_the_parts_share_the_budget() -> None:
    config = hybrid_preset(PROFILE, PRESETS["best"]).model_copy(update={"budget_seconds": 90.0})
    assert config.part("proofs").budget_seconds + config.part("embedding").budget_seconds == pytest.approx(90)


def test_each_part_searches_its_own_settings() -> None:
    config = hybrid_preset(PROFILE, PRESETS["fast"])
    assert "rank" in config.part("embedding").search
    assert "rank" not in config.part("proofs").search


def test_epochs_that_were_given_to_the_whole_are_not_searched_in_a_part() -> None:
    config = hybrid_preset(PROFILE, PRESETS["fast"]).model_copy(update={"epochs": 3, "seed": 7})
    for name in ("proofs", "embedding"):
        part = config.part(name)
        assert part.epochs <= 3
        assert part.seed == 7
        assert "epochs" not in part.search


def test_without_a_budget_the_parts_keep_their_own() -> None:
    assert HybridConfig().part("embedding").budget_seconds is None
