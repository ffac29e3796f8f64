"""Presets fit every KB of facts, large or small."""

from typing import Any, get_args

import numpy as np
import pytest
import torch

from ctp_core.errors import ConfigError
from ctp_core.evidence.config import ProofsConfig
from ctp_core.facts_presets import facts_config
from ctp_core.kb.knowledge_base import FactsKB, Kind
from ctp_core.methods import Profile, check_kind, parse_config, presets, settings_for
from ctp_core.registry import create_trainer
from ctp_core.select.config import UNREAD, CtpConfig, SelectName
from ctp_core.symbols import Vocabulary

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
    assert set(found) == {"fast", "best", "paper", "paper-long"}
    for config in found.values():
        assert parse_config(config.model_dump(mode="json")) == config
        check_kind(config, "facts")


@pytest.mark.parametrize("method", ["proofs", "hybrid", "complex", "distmult", "ctp"])
@pytest.mark.parametrize("name", PROFILES)
def test_a_preset_means_something_for_every_method_of_the_benchmark(name: str, method: str) -> None:
    config = facts_config(profile_of(name), method, "fast")
    large = name in ("wn18rr", "fb15k-237")
    assert config.method == ("rules" if method == "proofs" and large else method)


@pytest.mark.parametrize("name", PROFILES)
def test_the_prover_learns_from_all_proofs_where_a_kb_is_half_dense(name: str) -> None:
    config = facts_config(profile_of(name), "ctp", "fast")
    assert isinstance(config, CtpConfig) and config.loss == ("summed" if name == "kinship" else "all")


@pytest.mark.parametrize("select", get_args(SelectName))
@pytest.mark.parametrize("preset", ["fast", "best", "paper", "paper-long"])
@pytest.mark.parametrize("name", PROFILES)
def test_every_select_can_be_asked_for_over_every_preset(name: str, preset: str, select: str) -> None:
    profile = profile_of(name)
    values = facts_config(profile, "ctp", preset, select).model_dump()
    assert parse_config(values | {"select": select}).model_dump()["select"] == select


@pytest.mark.parametrize("name", PROFILES)
def test_chains_count_by_their_share_where_predicates_are_few(name: str) -> None:
    config = facts_config(profile_of(name), "proofs", "fast")
    assert getattr(config, "counting", "number") == ("share" if name == "countries" else "number")


@pytest.mark.parametrize(("num_facts", "longest"), [(900, "6"), (5_000, "4")])
def test_bodies_are_as_long_as_paths_are_few(num_facts: int, longest: str) -> None:
    profile = Profile(kind="facts", num_facts=num_facts, num_entities=200, num_predicates=2)
    config = facts_config(profile, "proofs", "fast")
    assert isinstance(config, ProofsConfig)
    assert max(config.templates) == longest


@pytest.mark.parametrize(
    ("config", "remedy"), [({"method": "proofs"}, "rules"), ({"method": "ctp", "search": "tables"}, "nearest")]
)
def test_a_kb_too_large_for_dense_tables_says_so_before_any_memory_is_taken(
    config: dict[str, str], remedy: str
) -> None:
    entities = Vocabulary("entity", map(str, range(40_000)))
    kb = FactsKB(entities, Vocabulary("predicate", ["p"]), {"train": np.array([[0, 0, 1]])})
    with pytest.raises(ConfigError, match=remedy):
        create_trainer(parse_config(config), kb, torch.device("cpu"))


@pytest.mark.parametrize(
    ("kind", "settings", "named"),
    [
        (
            "facts",
            {"rules": ["p(X,Y) :- q(X,Y)."], "prover": "tabled"},
            r"prover='tabled', rules=\(.*\) on .*: leave them out",
        ),
        ("facts", {"patience": 3}, "patience=3 on .*: leave it out"),
        ("graphs", {"hidden_facts": 0.2}, "hidden_facts=0.2 on .*: leave it out"),
    ],
)
def test_a_setting_that_the_kind_does_not_read_is_refused(kind: Kind, settings: dict[str, Any], named: str) -> None:
    config = parse_config({"method": "ctp", **settings})
    with pytest.raises(ConfigError, match=f"does not read {named}"):
        check_kind(config, kind)


def test_every_setting_is_known_to_be_read_on_facts_or_on_graphs_or_on_both() -> None:
    """A new one has to be put somewhere: into UNREAD, or here."""
    both = {"method", "seed", "epochs", "select", "templates", "depth", "semiring", "dim", "slope", "memory", "top_k"}
    both |= {"learning_rate", "batch_size", "eval_every", "train_depth", "schedule", "memory_start"}
    assert both | set(UNREAD["facts"]) | set(UNREAD["graphs"]) == set(CtpConfig.model_fields)
    assert sum(map(len, (both, *UNREAD.values()))) == len(CtpConfig.model_fields)


@pytest.mark.parametrize("kind", ["facts", "graphs"])
def test_a_preset_shows_no_setting_that_would_be_refused(kind: Kind) -> None:
    shown = settings_for(parse_config({"method": "ctp"}), kind)
    assert set(shown) == set(CtpConfig.model_fields) - set(UNREAD[kind])
