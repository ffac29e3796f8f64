"""What a preset and the settings on top of it come to."""

from typing import Any

import pytest

from ctp_core.ctp_graphs.config import CtpGraphsConfig, ctp_graphs_preset
from ctp_core.embeddings.config import DistMultConfig
from ctp_core.errors import ConfigError
from ctp_core.methods import method_texts
from ctp_core.presets import PRESETS
from ctp_core.select.registry import VARIANTS, SelectName
from service.db.tables import Kb
from service.errors import Invalid
from service.kbs.service import profile_of
from service.training.service import preset_configs, resolve_config


def graphs() -> Kb:
    return Kb(kind="graphs", num_facts=900, num_entities=0, num_predicates=20, max_length=3, splits={"train": 300})


@pytest.mark.parametrize("preset", [None, "best", "paper"])
@pytest.mark.parametrize("select", VARIANTS)
def test_a_preset_on_graphs_is_that_of_the_select_which_is_asked_for(preset: str | None, select: SelectName) -> None:
    config = resolve_config(graphs(), preset, {"select": select, "seed": 3})
    expected = ctp_graphs_preset(profile_of(graphs()), PRESETS[preset or "fast"], select)
    assert config == expected.model_copy(update={"seed": 3})


def test_graphs_whose_facts_must_be_turned_get_rules_that_turn_them() -> None:
    kb = graphs()
    kb.templates = ["1", "1R"]
    for select in VARIANTS:
        config = resolve_config(kb, "fast", {"select": select})
        assert isinstance(config, CtpGraphsConfig)
        assert set(config.templates) == {"2", "1", "1R"}
    assert set(resolve_config(kb, "paper", {}).templates) == {"2"}  # as published


def test_memory_has_settings_of_its_own() -> None:
    attentive, memory = (resolve_config(graphs(), "fast", {"select": name}) for name in ("attentive", "memory"))
    assert isinstance(attentive, CtpGraphsConfig)
    assert isinstance(memory, CtpGraphsConfig)
    assert (attentive.dim, memory.dim) == (32, 16)
    assert attentive.learning_rate > memory.learning_rate


@pytest.mark.parametrize("select", ["telepathic", ["memory"], None, 7])
def test_a_select_that_does_not_exist_is_refused(select: Any) -> None:
    with pytest.raises(Invalid, match="select"):
        resolve_config(graphs(), "fast", {"select": select})


def facts() -> Kb:
    return Kb(kind="facts", num_facts=1990, num_entities=14, num_predicates=55, max_length=0, splits={"train": 1592})


def test_a_setting_of_a_part_overrides_that_setting_alone() -> None:
    preset = resolve_config(facts(), "best", {}).model_dump()
    changed = resolve_config(facts(), "best", {"embedding": {"rank": 20}}).model_dump()
    named = resolve_config(facts(), "best", {"embedding": {"method": "complex", "rank": 20}}).model_dump()
    searched = tuple(name for name in preset["embedding"]["search"] if name != "rank")
    assert changed == named == {**preset, "embedding": {**preset["embedding"], "rank": 20, "search": searched}}


def test_a_part_of_another_method_has_none_of_the_settings_before() -> None:
    config = resolve_config(facts(), "best", {"embedding": {"method": "distmult", "rank": 20}}).model_dump()
    assert config["embedding"] == DistMultConfig(rank=20).model_dump()


@pytest.mark.parametrize("kb", [graphs(), facts()], ids=["graphs", "facts"])
def test_every_method_has_every_preset_and_shows_what_it_would_train(kb: Kb) -> None:
    own = preset_configs(kb, None)
    for method in method_texts(profile_of(kb).kind):
        shown = preset_configs(kb, method)
        assert list(shown) == list(own) == ["fast", "best", "paper", "paper-long"]
        assert shown == {name: resolve_config(kb, name, {"method": method}) for name in own}


def test_the_presets_of_a_method_that_there_is_not_or_not_here_are_refused() -> None:
    with pytest.raises(Invalid, match=r"did you mean 'lstm'.*choose from ctp, lstm"):
        preset_configs(graphs(), "lsmt")
    with pytest.raises(ConfigError, match="'complex' does not work on a KB of kind 'graphs'"):
        preset_configs(graphs(), "complex")
