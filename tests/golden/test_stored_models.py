"""Archives that version 0.1.0 exported still load, list the same rules and give the same answers."""

import gzip
import io
import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from ctp_core.artifact import decode
from ctp_core.base.model import Answers, Budget, Model, Question
from ctp_core.registry import load_model
from ctp_core.symbols import Fact, Goal
from service.models.archive import unpack
from service.settings import Settings
from tests.golden.comparing import check_answers, check_proofs, check_rules, plain_rules

FOLDER = Path(__file__).parent / "v0.1.0"
RECORDED: dict[str, Any] = json.loads(gzip.decompress((FOLDER / "models.json.gz").read_bytes()))
# Written out, not read from the registry: what could be trained then must load now, whatever can be trained now.
METHODS = {
    "facts": ("proofs", "rules", "hybrid", "ctp", "complex", "distmult", "neurallp", "minerva"),
    "graphs": ("ctp", "lstm", "gru", "rnn", "cnn", "cnnh", "mha", "gat", "gcn"),
}
SELECTS = ("linear", "attentive", "memory", "ntp", "gntp")
SLOW = {"facts-proofs-every-template"}  # bodies of up to six atoms
every_archive = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in sorted(RECORDED)]
)


def read(name: str) -> bytes:
    return (FOLDER / f"{name}.ctp.zip").read_bytes()


@cache
def loaded(name: str) -> Model:
    """As an import reads the archive, and as a query worker then loads its files."""
    files = unpack(io.BytesIO(read(name)), Settings()).files
    return load_model(decode(files), torch.device("cpu"))


def answer(model: Model, asked: dict[str, Any]) -> dict[str, Any]:
    """In the form of `POST /query`."""
    goal, facts = Goal(**asked["goal"]), tuple(Fact(*fact) for fact in asked.get("facts", ()))
    (found,) = model.answer([Question(goal, facts, top_k=asked["top_k"], proofs=asked["proofs"])], Budget())
    assert isinstance(found, Answers), found
    return {
        "answers": [
            {
                **item.fact._asdict(),
                "score": item.score,
                "known": item.known,
                "proofs": [{"score": proof.score} for proof in item.proofs],
            }
            for item in found.items
        ]
    }


def test_there_is_an_archive_of_every_method_of_that_version() -> None:
    assert {(one["kind"], one["method"]) for one in RECORDED.values()} == {
        (kind, method) for kind, methods in METHODS.items() for method in methods
    }
    assert {path.name for path in FOLDER.glob("*.ctp.zip")} == {f"{name}.ctp.zip" for name in RECORDED}


@pytest.mark.slow
def test_there_is_an_archive_of_every_select_and_prover_and_of_both_kinds_of_hybrid() -> None:
    configs = {name: loaded(name).config.model_dump() for name in RECORDED}
    facts = {config["select"] for name, config in configs.items() if name.startswith("facts-ctp")}
    graphs = {(one["prover"], one["select"]) for name, one in configs.items() if name.startswith("graphs-ctp")}
    hybrids = {config["proofs"]["method"] for config in configs.values() if config["method"] == "hybrid"}
    assert facts == set(SELECTS)
    assert graphs == {(prover, select) for prover in ("tabled", "exact") for select in SELECTS}
    assert hybrids == {"proofs", "rules"}


@pytest.mark.slow
@every_archive
def test_a_stored_model_gives_the_answers_of_that_version(name: str) -> None:
    model = loaded(name)
    ask, has_priors = partial(answer, model), any(rule.prior for rule in model.rules())
    for recorded in RECORDED[name]["questions"]:
        check_answers(recorded, ask)
        if not has_priors:  # that version showed them as proofs
            check_proofs(recorded, ask)


@every_archive
def test_a_stored_model_lists_the_rules_of_that_version(name: str) -> None:
    rules = [
        {"head": rule.predicate, "body": list(rule.body.predicates), "confidence": rule.confidence}
        for rule in loaded(name).rules()
    ]
    check_rules(RECORDED[name]["rules"], rules, RECORDED[name]["kind"])


@every_archive
@pytest.mark.slow
def test_an_archive_of_that_version_is_imported_and_answers(client: httpx.Client, name: str) -> None:
    headers = {"Content-Type": "application/zip"}
    model = client.post("/models/import", params={"name": f"golden-{name}"}, content=read(name), headers=headers)
    assert model.status_code == 201, model.text
    reference = model.json()["id"]

    def ask(question: dict[str, Any]) -> Any:
        return client.post("/query", json={"model": reference, **question}).json()

    for recorded in RECORDED[name]["questions"]:
        check_answers(recorded, ask)
    every = {"limit": 1000, "min_support": 0, "constants": True, "priors": True}
    rules = client.get(f"/models/{reference}/rules", params=every).json()
    assert rules["next_cursor"] is None
    check_rules(RECORDED[name]["rules"], plain_rules(rules["items"]), RECORDED[name]["kind"])
