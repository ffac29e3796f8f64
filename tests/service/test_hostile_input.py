"""Hostile and odd input on every call of the started service: a 4xx that says why, and names come back as they are."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

JSON = {"content-type": "application/json"}
HOSTILE = {
    "NaN": b"NaN",
    "a number too large": b"1e999",
    "half a surrogate pair": b'"\\ud800"',
    "NUL": b'"a\\u0000b"',
    "a number of 5000 digits": b"9" * 5000,
    "deep nesting": b"[" * 200_000,
    "deep objects": b'{"a":' * 200_000,
    "invalid UTF-8": b'"\xff\xfe"',
    "a binary body": bytes(range(256)),
    "nothing": b"",
}


def json_calls(client: httpx.Client) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(method, path, properties) of every call with a JSON body, from the OpenAPI document."""
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method, call in methods.items():
            content = call.get("requestBody", {}).get("content", {})
            if "application/json" in content:
                schema = content["application/json"]["schema"]
                yield method.upper(), path, schema.get("properties", {})


@pytest.mark.slow
@pytest.mark.parametrize("what", HOSTILE)
def test_every_json_call_survives(client: httpx.Client, what: str) -> None:
    """As the whole body, and as the value of each of its fields."""
    value = HOSTILE[what]
    calls = list(json_calls(client))
    assert {path for _, path, _ in calls} >= {"/kbs", "/train", "/query"}
    for method, path, properties in calls:
        url = path.replace("{", "").replace("}", "")
        bodies = [value] + [b'{"' + name.encode() + b'":' + value + b"}" for name in properties]
        for body in bodies:
            answer = client.request(method, url, content=body, headers=JSON)
            assert 400 <= answer.status_code < 500, (method, path, body[:60], answer.text[:200])
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "cursor",
    ["x", "WzFlOTk5XQ==", "Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OV0=", "WyJcdWQ4MDAiXQ==", "W251bGxd", "W1tbW1tb"],
)
def test_a_made_up_cursor_is_refused_by_every_list(client: httpx.Client, cursor: str) -> None:
    for path in ("/kbs", "/kbs/family/facts", "/kbs/family/entities", "/jobs", "/models"):
        answer = client.get(path, params={"cursor": cursor})
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_cursor"), path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/train", b'{"kb":"a\\u0000b"}'),
        ("/query", b'{"model":"a\\u0000b","goal":{"predicate":"p","object":"o"}}'),
        ("/query", b'{"model":"m","goal":{"predicate":"p"},"facts":[["a","\\u0000","b"]]}'),
        ("/train", b'{"kb":"k","tags":{"a\\u0000":"b"}}'),
    ],
)
def test_a_nul_in_a_body_is_told(client: httpx.Client, path: str, body: bytes) -> None:
    answer = client.post(path, content=body, headers=JSON)
    assert (answer.status_code, "NUL" in answer.json()["detail"]) == (422, True), answer.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/kbs/a%00b", 422, "bad_url"),
        ("/kbs?cursor=%00", 422, "bad_url"),
        ("/models/%00", 422, "bad_url"),
        ("/kbs/%ff%fe", 404, "kb_not_found"),
    ],
)
def test_a_url_that_is_no_text_is_a_4xx(client: httpx.Client, path: str, status: int, code: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.slow
def test_names_are_data_and_come_back_exactly(client: httpx.Client) -> None:
    names = ["../../etc/passwd", "'; DROP TABLE kbs; --", "<script>alert(1)</script>", "\u202eright to left", " "]
    facts = [[name, "p", name] for name in names]
    client.post("/kbs", json={"name": "names", "facts": facts}).raise_for_status()
    answer = client.get("/kbs/names/facts")
    assert [[f["subject"], f["predicate"], f["object"]] for f in answer.json()["items"]] == facts
    assert answer.headers["content-type"] == "application/json"
    for name in names:
        assert client.get("/kbs/names/facts", params={"subject": name}).json()["items"][0]["object"] == name
