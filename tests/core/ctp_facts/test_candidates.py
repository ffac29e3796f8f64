"""Presets of the prover on facts: they follow from forecast cost and from measuring, never from the shape of a KB."""

import pytest

from ctp_core.ctp_facts.candidates import EFFORTS, at_effort, candidates, ctp_facts_preset
from ctp_core.ctp_facts.config import CtpFactsConfig
from ctp_core.ctp_facts.cost import forecast
from ctp_core.errors import ConfigError
from ctp_core.kb.profile import Profile
from ctp_core.methods import checked_config, search_space, with_settings
from ctp_core.presets import PRESETS
from ctp_core.select.registry import FIXED_RULES

SMALL = (8_000, 100, 25)
LARGE = (100_000, 40_000, 10)
SIZES = [(1, 2, 1), (600, 15, 50), (1_000, 270, 2), SMALL, (5_000, 1_000, 20), (5_000, 300, 200), LARGE]
SIZES += [(300_000, 15_000, 240), (1_000_000, 200_000, 20)]


def profile(facts: int, entities: int, predicates: int) -> Profile:
    return Profile(kind="facts", num_facts=facts, num_entities=entities, num_predicates=predicates)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("preset", ["fast", "best"])
def test_every_candidate_fits_the_budget_and_can_be_sent_again(sizes: tuple[int, int, int], preset: str) -> None:
    kb = profile(*sizes)
    found = candidates(ctp_facts_preset(kb, PRESETS[preset]), kb)
    assert found
    for one in found:
        cost = forecast(one, kb)
        assert not one.search
        assert cost.cpu_seconds <= 0.67 * PRESETS[preset].budget_seconds(sizes[0])
        assert cost.peak_bytes <= 2.5e9
        assert CtpFactsConfig.model_validate(one.model_dump(mode="json")) == one


@pytest.mark.parametrize("sizes", SIZES)
def test_a_preset_is_its_first_candidate(sizes: tuple[int, int, int]) -> None:
    kb = profile(*sizes)
    for select in (None, "memory", "ntp"):
        config = ctp_facts_preset(kb, PRESETS["fast"], select)  # type: ignore[arg-type]
        assert candidates(config, kb)[0] == config.model_copy(update={"search": ()})


def test_kbs_of_equal_cost_and_other_density_are_tried_with_equal_settings() -> None:
    dense, sparse = (
        Profile(kind="facts", num_facts=facts, num_entities=60, num_predicates=20, valid_facts=100)
        for facts in (15_000, 600)
    )
    for preset in ("fast", "best"):
        config = ctp_facts_preset(dense, PRESETS[preset])
        assert [forecast(one, dense).cpu_seconds for one in candidates(config, dense)] == [
            forecast(one, sparse).cpu_seconds for one in candidates(config, sparse)
        ]
        assert candidates(config, dense) == candidates(ctp_facts_preset(sparse, PRESETS[preset]), sparse)


@pytest.mark.parametrize("preset", ["paper", "paper-long"])
def test_what_is_published_is_the_same_for_every_kb_whose_tables_fit(preset: str) -> None:
    published = [ctp_facts_preset(profile(*sizes), PRESETS[preset]) for sizes in SIZES]
    on_tables = [config for config in published if config.loss == "sampled"]
    assert len(on_tables) == 6
    assert all(config == on_tables[0] for config in on_tables)
    assert not any(config.search for config in published)


@pytest.mark.parametrize("select", FIXED_RULES)
def test_rules_that_are_fixed_are_not_summed(select: str) -> None:
    kb = profile(*SMALL)
    config = ctp_facts_preset(kb, PRESETS["fast"], select)  # type: ignore[arg-type]
    found = candidates(config, kb)
    assert len(found) > 2
    assert {(one.select, one.loss) for one in found} == {(select, "all")}


@pytest.mark.parametrize(
    "given",
    [
        {"templates": ["0", "2"]},
        {"loss": "summed", "neighbours": "auto"},
        {"epochs": 7},
        {"epochs": 5000},
        {"neighbours": "tables"},
        {"dim": 8},
    ],
    ids=str,
)
@pytest.mark.parametrize("sizes", [SMALL, (5_000, 1_000, 20)])
def test_given_settings_stay(given: dict[str, object], sizes: tuple[int, int, int]) -> None:
    kb = profile(*sizes)
    config = checked_config("facts", with_settings(ctp_facts_preset(kb, PRESETS["fast"]), given))
    space = search_space(config, kb)
    assert space is not None
    for one in space.candidates:
        assert {name: one.model_dump(mode="json")[name] for name in given} == given


def test_given_settings_that_contradict_each_other_are_refused() -> None:
    kb = profile(*SMALL)
    values = with_settings(ctp_facts_preset(kb, PRESETS["fast"]), {"loss": "summed", "templates": ["0", "2"]})
    with pytest.raises(ConfigError, match="loss 'summed' needs"):
        search_space(checked_config("facts", values), kb)


def test_only_the_nearest_entities_are_compared_where_tables_are_too_dear() -> None:
    for sizes in (LARGE, (5_000, 1_000, 20)):
        assert ctp_facts_preset(profile(*sizes), PRESETS["fast"]).neighbours == "nearest"
    million = ctp_facts_preset(profile(1_000_000, 200_000, 20), PRESETS["fast"])
    assert million.nearest < EFFORTS[0]["nearest"]
    assert million.nearest_every > EFFORTS[0]["nearest_every"]


def test_less_effort_costs_less() -> None:
    kb = profile(*SMALL)
    for one in candidates(ctp_facts_preset(kb, PRESETS["fast"]), kb):
        assert forecast(at_effort(one, 1 / 6), kb).cpu_seconds < forecast(one, kb).cpu_seconds
        assert at_effort(one, 1.0) == one


def test_a_kb_without_facts_to_measure_on_has_one_candidate() -> None:
    kb = profile(100, 30, 3)
    assert len(candidates(ctp_facts_preset(kb, PRESETS["fast"]), kb)) == 1
