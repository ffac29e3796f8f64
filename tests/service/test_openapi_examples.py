"""What the OpenAPI document promises of every call."""

from typing import Any

import pytest

from service.app import create_app
from service.settings import Settings

Operation = tuple[str, dict[str, Any]]


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
        if media_type != "application/zip"
    ]
    assert len(bodies) > 20
    assert [name for name, body in bodies if "example" not in body] == []


def test_errors_are_problems_and_not_those_of_the_framework(operations: list[Operation]) -> None:
    for name, operation in operations:
        assert list(operation["responses"]["422"]["content"]) == ["application/problem+json"], name
