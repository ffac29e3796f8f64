"""What the OpenAPI document promises of every call."""

from typing import Any

import httpx
import pytest

from service.app import create_app
from service.http.codes import CODES
from service.http.openapi import EXAMPLE_PROBLEM
from service.settings import Settings
from tests.repository.test_error_codes import raised_codes
from tests.service.test_jobs import train

Operation = tuple[str, dict[str, Any]]
FILES = ("application/zip", "application/vnd.apache.parquet")


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> list[Operation]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("data"), redis_url="redis://127.0.0.1:1/0")
    paths = create_app(settings).openapi()["paths"]
    return [(f"{verb} {path}", operation) for path, verbs in paths.items() for verb, operation in verbs.items()]


def test_every_answer_with_a_body_has_an_example(operations: list[Operation]) -> None:
    bodies = [
        (name, body)
        for name, operation in operations
        for status, response in operation["responses"].items()
        if status in ("200", "201", "202")
        for media_type, body in response.get("content", {}).items()
        if media_type not in FILES
    ]
    assert len(bodies) > 20
    assert [name for name, body in bodies if "example" not in body] == []


def test_errors_are_problems_and_not_those_of_the_framework(operations: list[Operation]) -> None:
    for name, operation in operations:
        assert list(operation["responses"]["422"]["content"]) == ["application/problem+json"], name


def misfits(example: Any, real: Any, place: str = "") -> list[str]:
    """Where an example has what a real answer has not; the framework leaves out of examples what is null in them."""
    if place.rpartition(".")[2] in ("config", "metrics", "splits"):
        return []
    if isinstance(example, dict) and isinstance(real, dict):
        shared = set(example) & set(real)
        inner = [misfit for key in shared for misfit in misfits(example[key], real[key], f"{place}.{key}")]
        return [*(f"{place}.{key}" for key in set(example) - shared), *inner]
    if isinstance(example, list) and isinstance(real, list):
        return [m for one, two in zip(example, real, strict=False) for m in misfits(one, two, f"{place}[]")]
    return [] if real is None or isinstance(example, type(real)) else [place]


@pytest.mark.slow
def test_examples_have_the_keys_of_real_answers(client: httpx.Client, operations: list[Operation]) -> None:
    trained = train(client, config={"epochs": 30})
    model, job = trained["model"]["id"], trained["job"]["id"]
    rule = client.get(f"/models/{model}/rules").json()["items"][0]["id"]
    goal = {"subject": "rick", "predicate": "grandparent", "object": None}
    real = {
        "get /kbs": client.get("/kbs"),
        "get /formats": client.get("/formats"),
        "get /kbs/{kb}": client.get("/kbs/family"),
        "get /kbs/{kb}/facts": client.get("/kbs/family/facts"),
        "get /kbs/{kb}/predicates": client.get("/kbs/family/predicates"),
        "get /kbs/{kb}/neighbourhood": client.get("/kbs/family/neighbourhood", params={"entity": "rick"}),
        "post /train": client.post("/train", json={"kb": "family", "config": {"epochs": 1}}),
        "get /jobs/{job_id}": client.get(f"/jobs/{job}"),
        "get /presets": client.get("/presets", params={"kb": "family"}),
        "post /query": client.post("/query", json={"model": model, "goal": goal}),
        "get /models": client.get("/models"),
        "get /models/{model}/metrics": client.get(f"/models/{model}/metrics"),
        "get /models/{model}/checkpoints": client.get(f"/models/{model}/checkpoints"),
        "get /models/{model}/rules": client.get(f"/models/{model}/rules"),
        "get /models/{model}/rules/{rule_id}/groundings": client.get(f"/models/{model}/rules/{rule}/groundings"),
    }
    known = dict(operations)
    for name, answer in real.items():
        example = known[name]["responses"][str(answer.status_code)]["content"]["application/json"]["example"]
        assert misfits(example, answer.json()) == [], name
    assert client.get("/models", params={"limit": 1001}).json() == EXAMPLE_PROBLEM


def test_ids_of_operations_are_the_names_that_people_would_give_them(operations: list[Operation]) -> None:
    ids = {operation["operationId"] for _, operation in operations}
    assert len(ids) == len(operations)
    assert {"query", "train", "create_kb", "get_job", "create_prediction"} <= ids
    assert operations[0][0] == "post /query"


def test_every_answer_with_a_body_has_a_schema(operations: list[Operation]) -> None:
    untyped = [
        (name, status, media_type)
        for name, operation in operations
        for status, response in operation["responses"].items()
        for media_type, body in response.get("content", {}).items()
        if not body.get("schema")
    ]
    assert untyped == []


def test_calls_that_need_a_key_say_so(operations: list[Operation]) -> None:
    public = {name for name, operation in operations if not operation["security"]}
    assert public == {"get /healthz", "get /readyz"}
    assert all("401" in operation["responses"] for name, operation in operations if name not in public)


def test_every_code_of_a_problem_is_in_the_document_with_its_status() -> None:
    documented = {(status, code) for status, codes in CODES.items() for code in codes}
    raised = set(raised_codes())
    assert len(raised) > 60
    assert raised - documented == set()
