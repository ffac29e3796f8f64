"""Predictions in bulk over HTTP, by the Python client and in the terminal, against the started service."""

import csv
import io
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest
from typer.testing import CliRunner

from ctp_client import Client
from service.cli import app
from tests.running import RunningService

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(client: httpx.Client) -> str:
    name = f"m-{uuid.uuid4().hex[:8]}"
    body = {"kb": "family", "name": name, "config": {"method": "rules", "search": []}}
    trained = client.post("/train", params={"wait": 200}, json=body).json()
    assert trained["model"]["status"] == "ready", trained
    return name


@pytest.fixture(scope="module")
def api(service: RunningService) -> Iterator[Client]:
    with Client(service.url) as made:
        yield made


def predicted(client: httpx.Client, status: int = 202, **body: Any) -> dict[str, Any]:
    wanted = {"predicate": "grandparent", "min_score": 0.0, "exclude_known": False} | body
    answer = client.post("/predictions", params={"wait": 200}, json=wanted)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_rows_are_those_that_queries_answer(client: httpx.Client, model: str) -> None:
    found = predicted(client, model=model, format="jsonl", proofs=1, top_k_per_question=3)
    assert (found["status"], found["kb"], found["truncated"]) == ("succeeded", "family", False)
    answer = client.get(f"/predictions/{found['id']}/download")
    assert answer.headers["content-type"] == "application/jsonl"
    assert answer.headers["content-disposition"].endswith('.jsonl"')
    assert int(answer.headers["content-length"]) == len(answer.content) == found["num_bytes"]
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert len(rows) == found["num_rows"]
    first = rows[0]["subject"]
    goal = {"subject": first, "predicate": "grandparent", "object": None}
    asked = client.post("/query", json={"model": model, "goal": goal, "top_k": 3, "proofs": 1}).json()["answers"]
    mine = [row for row in rows if row["subject"] == first]
    assert [(row["object"], row["known"], row["rank"]) for row in mine] == [
        (one["object"], one["known"], one["rank"]) for one in asked
    ]
    assert [row["score"] for row in mine] == pytest.approx([one["score"] for one in asked], rel=1e-9)
    assert [row["proof"] for row in mine] == [one["proofs"][0]["text"] if one["proofs"] else None for one in asked]


def test_every_format_has_its_content_type_and_the_same_rows(client: httpx.Client, model: str, tmp_path: Path) -> None:
    ids = {name: predicted(client, model=model, format=name)["id"] for name in ("csv", "parquet")}
    answers = {name: client.get(f"/predictions/{one}/download") for name, one in ids.items()}
    types = {name: answer.headers["content-type"] for name, answer in answers.items()}
    assert types == {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
    file = tmp_path / "rows.parquet"
    file.write_bytes(answers["parquet"].content)
    facts = duckdb.sql(f"SELECT subject, object, score FROM '{file}'").fetchall()
    rows = csv.DictReader(io.StringIO(answers["csv"].text))
    assert [(row["subject"], row["object"], float(row["score"])) for row in rows] == facts


def test_it_is_a_job_that_is_listed_and_deleted(client: httpx.Client, model: str) -> None:
    found = predicted(client, model=model, subjects=["rick"], min_score=1.0)
    assert (found["subjects"], found["num_subjects"], found["num_questions"], found["num_rows"]) == (["rick"], 1, 1, 0)
    assert client.get(f"/jobs/{found['id']}").json()["type"] == "predict"
    listed = client.get("/predictions", params={"model": model}).json()["items"]
    assert found["id"] in [one["id"] for one in listed]
    assert "subjects" not in listed[0]
    assert client.get(f"/predictions/{found['id']}").json() == found
    assert client.delete(f"/predictions/{found['id']}").status_code == 204
    for call in (client.get, client.delete):
        answer = call(f"/predictions/{found['id']}")
        assert (answer.status_code, answer.json()["code"]) == (404, "prediction_not_found")


def test_the_same_key_predicts_once(client: httpx.Client, model: str) -> None:
    key, body = {"Idempotency-Key": uuid.uuid4().hex}, {"model": model, "predicate": "grandparent"}
    first, again = (client.post("/predictions", json=body, headers=key) for _ in range(2))
    assert (first.status_code, first.json()["id"]) == (202, again.json()["id"])
    assert first.headers["location"] == f"/predictions/{first.json()['id']}"


def test_a_repeated_call_has_its_answer_though_its_kb_is_gone(client: httpx.Client, model: str) -> None:
    facts = [["ann", "parent", "bob"], ["bob", "parent", "cyd"]]
    kb = client.post("/kbs", json={"name": "gone-after-predicting", "facts": facts}).json()["id"]
    key, body = {"Idempotency-Key": uuid.uuid4().hex}, {"model": model, "predicate": "grandparent", "kb": kb}
    first = client.post("/predictions", json=body, headers=key, params={"wait": 60})
    assert client.delete(f"/kbs/{kb}").status_code == 204
    again = client.post("/predictions", json=body, headers=key)
    assert (first.status_code, again.status_code, again.json()["id"]) == (202, 202, first.json()["id"])


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "nobody"}, 404, "model_not_found"),
        ({"predicate": "grandparrent"}, 422, "unknown_symbol"),
        ({"subjects": ["rick", "nobody"]}, 422, "unknown_symbol"),
        ({"objects": []}, 422, "invalid_request"),
        ({"min_score": 1.5}, 422, "invalid_request"),
        ({"top_k_per_question": 0}, 422, "invalid_request"),
        ({"proofs": 2}, 422, "invalid_request"),
        ({"format": "xlsx"}, 422, "invalid_request"),
        ({"kb": "nowhere"}, 404, "kb_not_found"),
        ({"nonsense": 1}, 422, "invalid_request"),
    ],
)
def test_bad_input_is_answered_with_what_to_do(
    client: httpx.Client, model: str, body: dict[str, Any], status: int, code: str
) -> None:
    assert predicted(client, status, **{"model": model} | body)["code"] == code


def test_the_client_predicts_waits_downloads_and_deletes(api: Client, model: str, tmp_path: Path) -> None:
    started = api.predictions.create(model, "grandparent", subjects=["rick"], min_score=0.0, format="csv")
    found = api.predictions.wait(started.id)
    assert (found.status, found.num_questions) == ("succeeded", 1)
    api.predictions.download(found.id, tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text().startswith("subject,predicate,object,score")
    assert found.id in [one.id for one in api.predictions.list(model)]
    api.predictions.delete(found.id)
    assert found.id not in [one.id for one in api.predictions.list(model)]


def test_the_terminal_writes_a_file(service: RunningService, model: str, tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        asked = ["predict", model, "--predicate", "grandparent", "--url", service.url, *arguments]
        return CliRunner().invoke(app, asked)

    to = tmp_path / "new.parquet"
    shown = run("--out", str(to), "--min-score", "0", "--known", "--proofs")
    assert shown.exit_code == 0, shown.output
    assert "rows from" in shown.output
    assert duckdb.sql(f"SELECT count(*) FROM '{to}' WHERE proof IS NOT NULL").fetchall()[0][0] > 0
    for wrong in ("new.xlsx", "nowhere/new.csv"):
        refused = run("--out", str(tmp_path / wrong))
        assert refused.exit_code == 2
