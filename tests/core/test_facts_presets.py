"""Presets fit every KB of facts, large or small."""

import numpy as np
import pytest
import torch

from ctp_core.config import Profile, parse_config, presets
from ctp_core.config.facts import facts_config
from ctp_core.datasets.kb import FactsKB
from ctp_core.errors import ConfigError
from ctp_core.models.registry import MODELS, create_trainer
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
        assert ("facts", config.method) in MODELS


@pytest.mark.parametrize("method", ["proofs", "hybrid", "complex", "distmult", "ctp"])
@pytest.mark.parametrize("name", PROFILES)
def test_a_preset_means_something_for_every_method_of_the_benchmark(name: str, method: str) -> None:
    config = facts_config(profile_of(name), method, "fast")
    large = name in ("wn18rr", "fb15k-237")
    assert config.method == ("rules" if method == "proofs" and large else method)


@pytest.mark.parametrize("method", ["proofs", "ctp"])
def test_a_kb_too_large_for_dense_tables_says_so_before_any_memory_is_taken(method: str) -> None:
    entities = Vocabulary("entity", map(str, range(40_000)))
    kb = FactsKB(entities, Vocabulary("predicate", ["p"]), {"train": np.array([[0, 0, 1]])})
    with pytest.raises(ConfigError, match="rules"):
        create_trainer(parse_config({"method": method}), kb, torch.device("cpu"))
