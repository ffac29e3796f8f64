"""Test facts are for the last figure: nothing that is learnt or chosen depends on them."""

import random
from typing import Any

import pytest
import torch

from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.methods import parse_config
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact

QUICK: dict[str, dict[str, Any]] = {
    "proofs": {"templates": {"1": 2, "2": 2}, "epochs": 4},
    "complex": {"rank": 4, "epochs": 4},
    "distmult": {"rank": 4, "epochs": 4},
    "hybrid": {
        "proofs": {"method": "proofs", "templates": {"1": 2, "2": 2}, "epochs": 4},
        "embedding": {"method": "complex", "rank": 4, "epochs": 4},
    },
    "rules": {"max_length": 2, "steps": 5},
    "neurallp": {"epochs": 2},
    "minerva": {"epochs": 2},
    "ctp": {"epochs": 2},
}


def kb(*, with_test: bool) -> FactsKB:
    """Test facts that compete with those of validation, and name nobody new."""
    choose = random.Random(0)
    names = [f"e{number}" for number in range(10)]
    facts = [Fact(a, p, b) for a in names for b in names for p in "pq" if choose.random() < 0.5]
    choose.shuffle(facts)
    splits = {"train": [*facts[:60], *(Fact(name, "p", name) for name in names)], "valid": facts[60:75]}
    return FactsKB.from_facts(splits | ({"test": facts[75:]} if with_test else {}))


@pytest.mark.slow
@pytest.mark.parametrize("method", QUICK)
def test_a_training_is_the_same_without_them(method: str) -> None:
    learnt = []
    for with_test in (True, False):
        config = parse_config("facts", {"method": method, **QUICK[method]})
        trainer = create_trainer(config, kb(with_test=with_test), torch.device("cpu"))
        metrics = []
        while not trainer.finished:
            metrics.append(trainer.train_epoch().metrics)
        artifact = trainer.model().to_artifact()
        tensors = {name: tensor for name, tensor in artifact.tensors.items() if not name.startswith("facts.")}
        learnt.append((metrics, artifact.manifest, tensors))
    (metrics, manifest, tensors), (same_metrics, same_manifest, same_tensors) = learnt
    assert any(metrics)
    assert metrics == same_metrics
    assert manifest == same_manifest
    assert tensors.keys() == same_tensors.keys()
    assert all(torch.equal(tensor, same_tensors[name]) for name, tensor in tensors.items())
