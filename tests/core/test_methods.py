"""The tables of presets and methods: presets fit every KB of facts, and settings are those of the kind of KB."""

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from ctp_core.artifact import Artifact
from ctp_core.base.model import Scoring
from ctp_core.base.training_state import same_config
from ctp_core.errors import ConfigError
from ctp_core.evidence.config import RulesConfig
from ctp_core.hybrid.config import HybridConfig
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import FactsKB, Graph, Kind
from ctp_core.kb.profile import Profile
from ctp_core.methods import (
    METHODS,
    checked_config,
    foreign_config,
    method_texts,
    parse_config,
    preset_for,
    presets,
    stored_config,
)
from ctp_core.presets import PRESETS
from ctp_core.registry import MODELS, create_trainer
from ctp_core.select.registry import VARIANTS
from ctp_core.symbols import Fact, Vocabulary

PROFILES = {
    "tiny": (10, 5, 2),
    "nations": (1592, 14, 55),
    "umls": (5216, 135, 46),
    "kinship": (8544, 104, 25),
    "countries": (1111, 271, 2),
    "wn18rr": (86835, 40943, 11),
    "fb15k-237": (272115, 14541, 237),
}


def profile_of(name: str) -> Profile:
    facts, entities, predicates = PROFILES[name]
    return Profile(kind="facts", num_facts=facts, num_entities=entities, num_predicates=predicates)


@pytest.mark.parametrize("name", PROFILES)
def test_every_preset_is_a_config_that_can_be_sent_again(name: str) -> None:
    found = presets(profile_of(name))
    assert list(found) == list(PRESETS)
    for config in found.values():
        assert parse_config("facts", config.model_dump(mode="json")) == config


@pytest.mark.parametrize("method", ["proofs", "hybrid", "complex", "distmult", "ctp"])
@pytest.mark.parametrize("name", PROFILES)
def test_a_preset_means_something_for_every_method_of_the_benchmark(name: str, method: str) -> None:
    config = METHODS["facts", method].preset(profile_of(name), PRESETS["fast"])
    assert config.method == method


@pytest.mark.parametrize("select", VARIANTS)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", PROFILES)
def test_every_select_can_be_asked_for_over_every_preset(name: str, preset: str, select: str) -> None:
    config = preset_for(profile_of(name), preset, "ctp", select)
    assert config is not None
    assert parse_config("facts", config.model_dump() | {"select": select}).model_dump()["select"] == select


@pytest.mark.parametrize(
    ("config", "remedy"), [({"method": "proofs"}, "rules"), ({"method": "ctp", "neighbours": "tables"}, "nearest")]
)
def test_a_kb_too_large_for_dense_tables_says_so_before_any_memory_is_taken(
    config: dict[str, str], remedy: str
) -> None:
    entities = Vocabulary("entity", map(str, range(40_000)))
    kb = FactsKB(entities, Vocabulary("predicate", ["p"]), {"train": np.array([[0, 0, 1]])})
    with pytest.raises(ConfigError, match=remedy):
        create_trainer(parse_config("facts", config), kb, torch.device("cpu"))


@pytest.mark.parametrize(
    ("kind", "settings", "named"),
    [
        ("facts", {"rules": ["p(X,Y) :- q(X,Y)."], "prover": "exact"}, "`rules`, `prover` on .*: leave them out"),
        ("facts", {"patience": 3}, "`patience` on .*: leave it out"),
        ("graphs", {"hidden_facts": 0.2}, "`hidden_facts` on .*: leave it out"),
    ],
)
def test_a_setting_of_the_other_kind_is_refused_in_a_request(kind: Kind, settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=f"does not read {named}"):
        parse_config(kind, {"method": "ctp", **settings})


# What versions stored that had one config for both kinds: the defaults of the other kind too.
STORED: dict[Kind, dict[str, Any]] = {
    "facts": {"method": "ctp", "dim": 4, "loss": "all", "prover": "exact", "rules": [], "patience": None},
    "graphs": {"method": "ctp", "dim": 4, "prover": "tabled", "loss": "sampled", "nearest": 8, "ranked": "all"},
}


@pytest.mark.parametrize("kind", STORED)
def test_a_stored_config_may_name_settings_of_the_other_kind(kind: Kind) -> None:
    config = stored_config(kind, STORED[kind])
    own = {name: value for name, value in STORED[kind].items() if name in type(config).model_fields}
    assert config == parse_config(kind, own)
    assert len(own) == 3


@pytest.mark.parametrize("kind", STORED)
def test_a_checkpoint_of_such_a_config_can_be_resumed(kind: Kind) -> None:
    checkpoint, config = Artifact({"config": STORED[kind]}, {}), stored_config(kind, STORED[kind])
    assert same_config(checkpoint, config)
    assert not same_config(checkpoint, config.model_copy(update={"seed": 1}))


@pytest.mark.parametrize("kind", STORED)
def test_a_stored_config_with_a_setting_that_never_was_is_refused(kind: Kind) -> None:
    with pytest.raises(ValidationError, match="nearly"):
        stored_config(kind, STORED[kind] | {"nearly": 3})


LARGE: list[tuple[Kind, dict[str, Any]]] = [
    ("facts", {"method": "complex", "rank": 5000}),
    ("facts", {"method": "proofs", "templates": {"2": 10**6}}),
    ("facts", {"method": "hybrid", "embedding": {"method": "complex", "rank": 5000}}),
    ("graphs", {"method": "lstm", "epochs": 20_000}),
]


@pytest.mark.parametrize(("kind", "values"), LARGE)
def test_a_stored_config_may_have_numbers_beyond_the_bounds_of_a_request(kind: Kind, values: dict[str, Any]) -> None:
    """The first versions had no bounds, and their models still load."""
    with pytest.raises(ValidationError, match="less than or equal"):
        parse_config(kind, values)
    with pytest.raises(ValidationError, match="less than or equal"):
        foreign_config(kind, values)
    config = stored_config(kind, values)
    assert config.model_dump(mode="json").items() >= {k: v for k, v in values.items() if k != "embedding"}.items()
    assert stored_config(kind, config.model_dump(mode="json")) == config


def test_what_is_wrong_whatever_its_size_is_refused_in_a_stored_config() -> None:
    for wrong in ({"rank": 0}, {"rank": "many"}, {"learning_rate": float("nan")}):
        with pytest.raises(ValidationError):
            stored_config("facts", {"method": "complex", **wrong})


def test_the_number_of_mined_rules_is_read_by_its_former_name_where_it_was_stored() -> None:
    rules = {"method": "rules", "rules": 7}
    assert stored_config("facts", rules) == parse_config("facts", {"method": "rules", "rules_per_template": 7})
    hybrid = stored_config("facts", {"method": "hybrid", "proofs": rules})
    assert isinstance(hybrid, HybridConfig) and isinstance(hybrid.proofs, RulesConfig)
    assert hybrid.proofs.rules_per_template == 7


def test_the_neighbours_of_a_prover_are_read_by_their_former_name_where_they_were_stored() -> None:
    nearest = parse_config("facts", {"method": "ctp", "neighbours": "nearest"})
    assert stored_config("facts", {"method": "ctp", "search": "nearest"}) == nearest
    assert stored_config("facts", nearest.model_dump(mode="json")) == nearest
    with pytest.raises(ConfigError, match="`search` is called `neighbours` now"):
        checked_config("facts", {"method": "ctp", "search": "nearest"})


@pytest.mark.parametrize(
    "values", [{"method": "rules", "rules": 7}, {"method": "hybrid", "proofs": {"method": "rules", "rules": 7}}]
)
def test_a_request_with_a_former_name_is_told_the_new_one(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="`rules` is called `rules_per_template` now"):
        checked_config("facts", values)


@pytest.mark.parametrize("kind", ["facts", "graphs"])
def test_settings_of_one_kind_do_not_train_on_the_other(kind: Kind) -> None:
    graph = Graph((Fact("a", "p", "b"), Fact("b", "p", "c")), "a", "c", "q")
    kbs = {"facts": FactsKB.from_facts({"train": list(graph.facts)}), "graphs": graphs_kb({"train": [graph]})}
    other = METHODS["graphs" if kind == "facts" else "facts", "ctp"].config
    with pytest.raises(ConfigError, match="has other settings than these"):
        create_trainer(other(method="ctp"), kbs[kind], torch.device("cpu"))


@pytest.mark.parametrize("kind", ["facts", "graphs"])
def test_every_preset_and_every_method_has_a_sentence_for_people(kind: Kind) -> None:
    sentences = [*method_texts(kind).values(), *(preset.text for preset in PRESETS.values())]
    assert all(text.endswith(".") and text[0].isupper() for text in sentences)


@pytest.mark.parametrize("key", METHODS, ids="-".join)
def test_every_setting_has_a_description(key: tuple[Kind, str]) -> None:
    fields = METHODS[key].config.model_fields
    assert [name for name, field in fields.items() if name != "method" and not field.description] == []


def numbers_without_end(schema: dict[str, Any], path: str) -> Iterator[str]:
    """The places of a JSON schema where a number of any size may stand."""
    if schema.get("type") in ("integer", "number") and not {"maximum", "exclusiveMaximum", "const", "enum"} & set(
        schema
    ):
        yield path
    for key, inner in schema.items():
        if isinstance(inner, dict):
            yield from numbers_without_end(inner, f"{path}.{key}")
        elif isinstance(inner, list):
            for number, one in enumerate(inner):
                if isinstance(one, dict):
                    yield from numbers_without_end(one, f"{path}.{key}.{number}")


@pytest.mark.parametrize("key", MODELS)
def test_a_model_has_a_semiring_where_the_best_proof_is_the_score_and_nowhere_else(key: tuple[Kind, str]) -> None:
    config, model = MODELS[key].config, MODELS[key].model
    assert model.scoring in get_args(Scoring)
    assert (model.scoring == "no_proofs") != config.explainable
    assert (model.scoring == "best_proof") == ("semiring" in config.model_fields)


@pytest.mark.parametrize("key", METHODS)
def test_every_number_of_a_config_has_an_end(key: tuple[Kind, str]) -> None:
    """Otherwise one request could take all memory or all time there is."""
    assert list(numbers_without_end(METHODS[key].config.model_json_schema(), key[1])) == []
