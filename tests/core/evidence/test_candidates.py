"""Presets of the engine: whatever the KB, a training fits its budget."""

import pytest

from ctp_core.evidence.candidates import ATTENTION, at_effort, candidates, proofs_preset, rules_preset
from ctp_core.evidence.config import ProofsConfig
from ctp_core.evidence.cost import attention_bytes, forecast
from ctp_core.kb.profile import Profile
from ctp_core.presets import PRESETS

SIZES = [(1, 2, 1), (1_000, 300, 1_000), (8_000, 100, 25), (20_000, 2_000, 25), (100_000, 9_000, 1_000)]
SIZES += [(600_000, 300_000, 2), (1_000_000, 60_000, 50), (1_000_000, 100_000, 1_000)]


def profile(facts: int, entities: int, predicates: int) -> Profile:
    return Profile(kind="facts", num_facts=facts, num_entities=entities, num_predicates=predicates)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("preset", ["fast", "best"])
def test_every_candidate_fits_the_budget_and_searches_nothing(sizes: tuple[int, int, int], preset: str) -> None:
    kb = profile(*sizes)
    config = proofs_preset(kb, PRESETS[preset])
    found = candidates(config, kb)
    assert found
    for one in found:
        cost = forecast(one, kb)
        assert not one.search
        assert cost.cpu_seconds <= 0.85 * PRESETS[preset].budget_seconds(sizes[0])
        assert cost.peak_bytes <= 4e9


@pytest.mark.parametrize("sizes", SIZES)
def test_a_preset_is_its_first_candidate(sizes: tuple[int, int, int]) -> None:
    kb = profile(*sizes)
    for config in (proofs_preset(kb, PRESETS["fast"]), rules_preset(kb, PRESETS["fast"])):
        assert candidates(config, kb)[0] == config.model_copy(update={"search": ()})


def test_a_training_that_nothing_is_compared_with_may_use_what_a_search_would() -> None:
    """A thousand predicates of ten facts: rules of two atoms were left out for a search that was never made."""
    kb = profile(10_000, 1_000, 1_000)
    [only] = candidates(proofs_preset(kb, PRESETS["fast"]), kb)
    assert only.max_length == 2


def test_tables_of_all_pairs_are_used_only_where_they_are_small() -> None:
    assert all(
        one.templates
        for one in candidates(proofs_preset(profile(8_000, 100, 25), PRESETS["fast"]), profile(8_000, 100, 25))
    )
    large = profile(20_000, 2_000, 25)
    assert not proofs_preset(large, PRESETS["fast"]).templates
    assert attention_bytes(ProofsConfig(**ATTENTION[0]), large) > 1e9


def test_given_settings_stay() -> None:
    kb = profile(8_000, 100, 25)
    given = proofs_preset(kb, PRESETS["fast"])
    given = given.model_copy(update={"loss": "binary", "search": tuple(n for n in given.search if n != "loss")})
    assert {one.loss for one in candidates(given, kb)} == {"binary"}


def test_less_effort_costs_less() -> None:
    for sizes in SIZES[2:]:
        kb = profile(*sizes)
        for one in candidates(proofs_preset(kb, PRESETS["fast"]), kb):
            assert forecast(at_effort(one, 1 / 6), kb).cpu_seconds < forecast(one, kb).cpu_seconds
            assert at_effort(one, 1.0) == one


def test_a_kb_without_facts_to_measure_on_has_one_candidate() -> None:
    assert len(candidates(proofs_preset(profile(100, 30, 3), PRESETS["fast"]), profile(100, 30, 3))) == 1


def test_the_forecast_of_a_preset_grows_no_faster_than_its_budget() -> None:
    seconds = [
        forecast(proofs_preset(profile(n, n // 15, 40), PRESETS["fast"]), profile(n, n // 15, 40))
        for n in (10**5, 10**6)
    ]
    assert seconds[1].cpu_seconds <= 15 * seconds[0].cpu_seconds
