"""Bad input on each of the four calls: a 4xx problem that says what to do, and nothing is stored."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from service.http.bodies import holds_nul

pytestmark = pytest.mark.slow
JSON = {"content-type": "application/json"}
LIMIT = 16 * 1024 * 1024
PATIENCE = 20  # seconds; a body is read in less than one, unless its faults are listed without end


def kb_body(*facts: Any, name: str = "bad") -> bytes:
    return json.dumps({"name": name, "facts": facts}).encode()


BAD_CALLS: dict[str, tuple[str, bytes, int, str]] = {
    "an empty KB": ("/kbs", kb_body(), 422, "empty_kb"),
    "a fact with two columns": ("/kbs", kb_body(["a", "p"]), 422, "invalid_request"),
    "a fact with an empty name": ("/kbs", kb_body(["a", "", "b"]), 422, "bad_line"),
    "a NUL in a name": ("/kbs", kb_body(["a", "p", "b\0"]), 422, "bad_line"),
    "half a surrogate pair in a name": (
        "/kbs",
        b'{"name":"bad","facts":[["\\ud800","p","b"]]}',
        422,
        "invalid_request",
    ),
    "NaN for a name": ("/kbs", b'{"name":"bad","facts":[[NaN,"p","b"]]}', 422, "invalid_request"),
    "a name that is a path": ("/kbs", kb_body(["a", "p", "b"], name="../x"), 422, "bad_name"),
    "a name that is a route": ("/kbs", kb_body(["a", "p", "b"], name="import"), 422, "bad_name"),
    "a field that does not exist": ("/kbs", b'{"name":"bad","facts":[],"fact":[]}', 422, "invalid_request"),
    "no JSON at all": ("/kbs", b"\x80\x81", 422, "invalid_request"),
    "nesting without end": ("/kbs", b"[" * 200_000, 422, "invalid_request"),
    "training on an unknown KB": ("/train", b'{"kb":"nowhere","name":"bad"}', 404, "kb_not_found"),
    "an unknown preset": ("/train", b'{"kb":"family","name":"bad","preset":"magic"}', 422, "unknown_preset"),
    "an unknown setting": ("/train", b'{"kb":"family","name":"bad","config":{"epoch":3}}', 422, "invalid_request"),
    "an unknown method": ("/train", b'{"kb":"family","name":"bad","config":{"method":"x"}}', 422, "invalid_request"),
    "a rule of a megabyte": (
        "/train",
        b'{"kb":"family","name":"bad","config":{"method":"ctp","rules":["p(X,Y) :- ' + b"q(X,Y), " * 120_000 + b'"]}}',
        422,
        "bad_config",
    ),
    "two million facts without a name": (
        "/query",
        b'{"model":"m","goal":{"subject":"a","predicate":"p"},"facts":[' + b"[]," * 2_000_000 + b"[]]}",
        413,
        "too_many_facts",
    ),
    "a KB of two million facts without a name": (
        "/kbs",
        b'{"name":"bad","facts":[' + b"[]," * 2_000_000 + b"[]]}",
        422,
        "invalid_request",
    ),
    "two million goals": ("/query", b'{"model":"m","goals":[' + b"{}," * 2_000_000 + b"{}]}", 413, "body_too_large"),
    "a million keys that there are not": (
        "/query",
        b"{" + b",".join(b'"k%d":1' % number for number in range(1_000_000)) + b"}",
        413,
        "body_too_large",
    ),
    "fifty thousand settings": (
        "/train",
        b'{"kb":"family","name":"bad","config":{' + b",".join(b'"k%d":1' % number for number in range(50_000)) + b"}}",
        422,
        "invalid_request",
    ),
    "NaN for a setting": ("/train", b'{"kb":"family","name":"bad","config":{"epochs":NaN}}', 422, "invalid_request"),
    "a number too large for JSON": (
        "/train",
        b'{"kb":"family","name":"bad","config":{"epochs":1e999}}',
        422,
        "invalid_request",
    ),
    "a number of 5000 digits": (
        "/train",
        b'{"kb":"family","name":"bad","priority":' + b"9" * 5000 + b"}",
        422,
        "invalid_request",
    ),
    "a query to an unknown model": ("/query", b'{"model":"nowhere","goal":{"subject":"a"}}', 422, "too_many_unknowns"),
    "a query without a goal": ("/query", b'{"model":"nowhere"}', 422, "missing_goal"),
    "a query with a model that is not there": (
        "/query",
        b'{"model":"nowhere","goal":{"subject":"a","predicate":"p"}}',
        404,
        "model_not_found",
    ),
    "NaN for a number of answers": (
        "/query",
        b'{"model":"m","goal":{"subject":"a","predicate":"p"},"top_k":NaN}',
        422,
        "invalid_request",
    ),
}


def is_problem(answer: httpx.Response) -> bool:
    body = answer.json()
    return (
        answer.headers["content-type"] == "application/problem+json"
        and body["status"] == answer.status_code
        and bool(body["detail"])
        and bool(body["type"])
        and bool(body["title"])
    )


def stored(client: httpx.Client) -> tuple[Any, Any, Any]:
    return tuple(
        [item["id"] for item in client.get(path, params={"limit": 1000}).json()["items"]]
        for path in ("/kbs", "/models", "/jobs")
    )


@pytest.mark.parametrize("call", BAD_CALLS)
def test_bad_input_is_a_problem_and_nothing_is_stored(client: httpx.Client, call: str) -> None:
    path, body, status, code = BAD_CALLS[call]
    before = stored(client)
    answer = client.post(path, content=body, headers=JSON, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert is_problem(answer)
    assert len(answer.content) < 2000, "what is wrong is not sent back"
    assert stored(client) == before


@pytest.mark.parametrize(
    ("body", "holds"), [(rb'"a\u0000"', True), (rb'"a\\u0000"', False), (rb'"\\\u0000"', True), (rb'"u0000"', False)]
)
def test_nul_is_told_from_a_text_that_looks_like_it(body: bytes, holds: bool) -> None:
    assert ("\0" in json.loads(body)) == holds_nul(body) == holds


def test_a_line_with_two_columns_is_named_by_file_and_line(client: httpx.Client) -> None:
    before = stored(client)
    files = {"file": ("facts.tsv", b"a\tp\tb\nb\tp\n")}
    answer = client.post("/kbs", data={"name": "two-columns"}, files=files)
    assert answer.status_code == 422
    problem = answer.json()
    assert (problem["file"], problem["line"]) == ("facts.tsv", 2)
    assert "3 columns" in problem["reason"]
    assert stored(client) == before


@pytest.mark.parametrize("path", ["/kbs", "/train", "/query"])
def test_a_body_over_the_limit_is_refused_before_it_is_read(client: httpx.Client, path: str) -> None:
    answer = client.post(path, content=b"[" + b" " * (50 * 1024 * 1024), headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    assert str(LIMIT) in answer.json()["detail"]


def test_a_chunked_body_over_the_limit_is_refused_as_it_arrives(client: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(50):
            yield b" " * 1024 * 1024

    answer = client.post("/kbs", content=chunks(), headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("path", ["/kbs", "/train", "/query", "/models/import"])
def test_a_body_of_another_type_is_told_which_are_read(client: httpx.Client, path: str) -> None:
    answer = client.post(path, content=b"<kb/>", headers={"content-type": "text/xml"})
    assert (answer.status_code, answer.json()["code"]) == (415, "bad_media_type")
    assert is_problem(answer)
    assert "send application/" in answer.json()["detail"]


def test_an_unknown_route_is_a_problem_too(client: httpx.Client) -> None:
    assert is_problem(client.get("/nowhere"))
    assert is_problem(client.delete("/train"))


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/kbs/none", "kb_not_found"),
        ("/kbs/none/facts", "kb_not_found"),
        ("/models/none", "model_not_found"),
        ("/models/none/rules", "model_not_found"),
        ("/jobs/none", "job_not_found"),
    ],
)
def test_what_is_not_there_is_a_404_that_says_where_to_look(client: httpx.Client, path: str, code: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, code)
    assert is_problem(answer)
    assert "GET /" in answer.json()["detail"]
