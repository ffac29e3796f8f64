"""Trainings cost about what was forecast: seconds within a factor of three, memory within a factor of two.

Each training runs in a process of its own, since the most memory that a process ever had cannot be reset.
"""

import json
import subprocess
import sys
from typing import Any, get_args

import pytest

from ctp_core.kb.knowledge_base import Kind
from ctp_core.kb.profile import Profile
from ctp_core.methods import METHODS, forecast, method_texts, preset_for
from ctp_core.presets import PRESETS

# Loads what trainings load late before it starts the clock, as a worker that has trained before.
PROGRAM = """
import json, sys, time
import numpy as np, torch
from ctp_core.benchmarks.ladder.memory import peak_mb
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import FactsKB, Graph
from ctp_core.kb.profile import Profile
from ctp_core.methods import forecast, parse_config
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact, Vocabulary

torch.set_num_threads(1)
torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
case = json.loads(sys.argv[1])
draw = np.random.default_rng(0)
if "facts" in case:
    facts, entities, predicates = case["facts"]
    ids = np.stack([draw.integers(n, size=facts) for n in (entities, predicates, entities)], axis=1)
    sizes = (("entity", entities), ("predicate", predicates))
    names = [Vocabulary(role, (f"{role}{i}" for i in range(n))) for role, n in sizes]
    kb = FactsKB(*names, {"train": np.unique(ids, axis=0)})
else:
    graphs, longest, predicates = case["graphs"]
    chains = [draw.integers(predicates, size=draw.integers(2, longest + 1)).tolist() for _ in range(graphs)]
    kb = graphs_kb({"train": [
        Graph(tuple(Fact(f"e{i}", f"p{p}", f"e{i + 1}") for i, p in enumerate(chain)), "e0", f"e{len(chain)}",
              f"p{sum(chain) % predicates}")
        for chain in chains
    ]})
config = parse_config(kb.kind, case["config"])
started = time.process_time()
create_trainer(config, kb, torch.device("cpu")).fit().rules()
seconds = time.process_time() - started
peak = peak_mb() * 2**20  # getrusage would tell the parent's peak
expected = forecast(config, Profile.of(kb))
print(json.dumps([seconds, peak, expected.cpu_seconds, expected.peak_bytes]))
"""
CASES: dict[str, dict[str, Any]] = {
    "complex": {"facts": [6000, 1500, 20], "config": {"method": "complex", "epochs": 6, "rank": 100}},
    "neurallp": {"facts": [1500, 250, 6], "config": {"method": "neurallp", "epochs": 16}},
    "ctp-facts": {
        "facts": [1500, 200, 8],
        "config": {"method": "ctp", "loss": "all", "templates": ["0", "2"], "epochs": 10, "batch_size": 2},
    },
    "ctp-graphs": {
        "graphs": [600, 5, 10],
        "config": {
            "method": "ctp",
            "prover": "tabled",
            "semiring": "max-product",
            "templates": ["2"] * 8,
            "epochs": 40,
        },
    },
    "lstm": {"graphs": [600, 5, 10], "config": {"method": "lstm", "epochs": 30, "steps": None}},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_training_costs_about_what_was_forecast(case: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(CASES[case])], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    seconds, peak, expected_seconds, expected_bytes = json.loads(found.stdout.splitlines()[-1])
    assert (seconds - 1) / 3 < expected_seconds < 3 * (seconds + 1), (seconds, expected_seconds)
    assert peak / 2 < expected_bytes < 2 * peak, (peak, expected_bytes)


def profile(kind: Kind, times: int = 1) -> Profile:
    if kind == "graphs":
        return Profile(
            kind=kind, num_facts=4000 * times, num_entities=0, num_predicates=20, max_length=6, num_graphs=1000 * times
        )
    return Profile(kind=kind, num_facts=20_000 * times, num_entities=2000 * times, num_predicates=25)


@pytest.mark.parametrize(("kind", "preset"), [(kind, preset) for kind in get_args(Kind) for preset in PRESETS])
def test_every_method_has_a_forecast_for_every_preset(kind: Kind, preset: str) -> None:
    for method in method_texts(kind):
        if (kind, method) not in METHODS:
            continue
        config = preset_for(profile(kind), preset, method, None)
        expected = forecast(config, profile(kind))
        assert 0 < expected.cpu_seconds < 1e6, method
        assert 3e8 < expected.peak_bytes < 1e12, method
        assert expected.basis
        assert METHODS[kind, method].saving


def test_tables_of_all_pairs_are_forecast_to_grow_with_the_square_of_the_entities() -> None:
    config = METHODS["facts", "neurallp"].preset(profile("facts"), PRESETS["fast"])
    once, ten = (forecast(config, profile("facts", times)).peak_bytes for times in (1, 10))
    assert ten > 50 * once
