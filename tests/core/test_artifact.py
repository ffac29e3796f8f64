"""Files of a model whose parts contradict each other are refused when it is loaded, not when it is asked."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ctp_core.artifact import Artifact, decode, encode
from ctp_core.errors import ArtifactError
from ctp_core.manifest import MANIFEST
from ctp_core.registry import create_trainer, load_model
from tests.core.base.test_facts_model import CONFIGS, CPU, KB, brief

Damage = Callable[[dict[str, Any], dict[str, torch.Tensor]], None]
artifacts: dict[str, Artifact] = {}


def artifact(method: str) -> Artifact:
    if method not in artifacts:
        trainer = create_trainer(brief(method), KB, CPU)
        # There are no mined rules before the training.
        artifacts[method] = (trainer.fit() if method == "rules" else trainer.model()).to_artifact()
    return artifacts[method]


def fact_id(value: int, place: int) -> Damage:
    def damage(_: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        facts = tensors["facts.train"].clone()
        facts[0, place] = value
        tensors["facts.train"] = facts

    return damage


def no_facts(_: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    del tensors["facts.train"]


def not_a_number(_: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    name = next(name for name, tensor in tensors.items() if tensor.is_floating_point() and tensor.numel())
    tensors[name] = torch.full_like(tensors[name], torch.nan)


def huge(_: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    name = next(name for name, tensor in tensors.items() if tensor.is_floating_point() and tensor.numel())
    tensors[name] = torch.full_like(tensors[name], 3e38)


def halved(_: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    name = next(name for name, tensor in tensors.items() if tensor.is_floating_point() and tensor.numel())
    tensors[name] = tensors[name].half()


DAMAGES: dict[str, Damage] = {
    "weights that overflow": huge,
    "weights of a type that no model has": halved,
    "an empty table of facts": lambda _, tensors: tensors.update({"facts.train": tensors["facts.train"][:0]}),
    "a fact twice": lambda _, tensors: tensors.update({"facts.train": tensors["facts.train"][[0, 0]]}),
    "an entity out of range": fact_id(10**6, 0),
    "a predicate out of range": fact_id(10**6, 1),
    "a negative id": fact_id(-1, 2),
    "no facts": no_facts,
    "facts of two places": lambda _, tensors: tensors.update({"facts.train": tensors["facts.train"][:, :2]}),
    "facts that are no integers": lambda _, tensors: tensors.update({"facts.train": tensors["facts.train"].float()}),
    "entities cut off": lambda manifest, _: manifest.update(entities=manifest["entities"][:2]),
    "an entity twice": lambda manifest, _: manifest.update(entities=["a", *manifest["entities"][1:-1], "a"]),
    "half a character": lambda manifest, _: manifest.update(entities=["\ud800", *manifest["entities"][1:]]),
    "entities of another type": lambda manifest, _: manifest.update(entities={}),
    "a number for a name": lambda manifest, _: manifest.update(predicates=[1, *manifest["predicates"][1:]]),
    "weights that are no numbers": not_a_number,
}


@pytest.mark.slow
@pytest.mark.parametrize("method", CONFIGS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_model_of_facts_is_loaded_whole_or_refused(method: str, damage: str) -> None:
    whole = artifact(method)
    load_model(whole, CPU)
    damaged = Artifact(dict(whole.manifest), dict(whole.tensors))
    DAMAGES[damage](damaged.manifest, damaged.tensors)
    with pytest.raises(ArtifactError):
        load_model(damaged, CPU)


@pytest.mark.slow
@pytest.mark.parametrize(("column", "value"), [("head", 99), ("template", 99), ("body", 99), ("body", -2)])
def test_mined_rules_are_about_what_is_there(column: str, value: int) -> None:
    whole = artifact("rules")
    damaged = whole.tensors[f"rules.{column}"].clone()
    damaged[:1] = value
    with pytest.raises(ArtifactError, match="does not exist"):
        load_model(Artifact(whole.manifest, {**whole.tensors, f"rules.{column}": damaged}), CPU)


@pytest.mark.parametrize(
    ("column", "damage"),
    [
        ("template", torch.zeros_like),
        ("body", torch.zeros_like),
        ("weight", torch.Tensor.long),
        ("bias", torch.Tensor.int),
    ],
)
def test_mined_rules_have_the_length_of_their_template_and_weights_with_fractions(
    column: str, damage: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    whole = artifact("rules")
    tensors = {**whole.tensors, f"rules.{column}": damage(whole.tensors[f"rules.{column}"])}
    with pytest.raises(ArtifactError, match="mined rule"):
        load_model(Artifact(whole.manifest, tensors), CPU)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_number_that_json_does_not_have_is_refused(number: str) -> None:
    files = encode(artifact("complex"))
    manifest = json.loads(files[MANIFEST])
    offset = json.dumps(manifest["calibration"]["offset"]).encode()
    files[MANIFEST] = files[MANIFEST].replace(b'"offset": ' + offset, f'"offset": {number}'.encode())
    with pytest.raises(ArtifactError, match="not JSON"):
        decode(files)
