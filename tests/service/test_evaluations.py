"""Evaluations over HTTP, by the Python client and in the terminal, against the started service."""

import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from ctp_client import Client
from service.cli import app
from tests.running import RunningService

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(client: httpx.Client) -> str:
    """A model of a KB with all splits."""
    name = f"m-{uuid.uuid4().hex[:8]}"
    config = {"method": "distmult", "search": [], "epochs": 1}
    body = {"kb": "nations", "name": name, "config": config}
    trained = client.post("/train", params={"wait": 200}, json=body).json()
    assert trained["model"]["status"] == "ready", trained
    return name


@pytest.fixture(scope="module")
def api(service: RunningService) -> Iterator[Client]:
    with Client(service.url) as made:
        yield made


def asked(client: httpx.Client, status: int = 202, **body: Any) -> dict[str, Any]:
    answer = client.post("/evaluations", params={"wait": 200}, json=body)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_an_evaluation_tells_its_figures_and_is_listed(client: httpx.Client, model: str) -> None:
    found = asked(client, model=model, split="valid")
    assert (found["status"], found["kb"], found["split"], found["num_items"]) == ("succeeded", "nations", "valid", 199)
    assert found["by_predicate"][0]["num_items"] >= found["by_predicate"][-1]["num_items"]
    assert found["calibration"]["bins"]
    (listed,) = client.get("/evaluations", params={"model": model}).json()["items"]
    assert (listed["id"], listed["metrics"]) == (found["id"], found["metrics"])
    assert "by_predicate" not in listed
    assert client.get(f"/jobs/{found['id']}").json()["type"] == "evaluate"
    jobs = client.get("/jobs", params={"type": "train"}).json()["items"]
    assert {job["type"] for job in jobs} == {"train"}


def test_a_model_is_still_known_by_the_job_that_trained_it(client: httpx.Client, model: str) -> None:
    before = client.get(f"/models/{model}").json()["lineage"]
    asked(client, model=model, limit=3)
    after = client.get(f"/models/{model}").json()
    assert after["lineage"] == before
    assert after["status"] == "ready"


def test_the_card_of_a_model_names_the_split_of_its_figures(client: httpx.Client, model: str) -> None:
    found = asked(client, model=model, split="test", limit=20)
    card = client.get(f"/models/{model}").json()
    told = next(one for one in card["evaluations"] if one["split"] == "test")
    assert (told["id"], told["metrics"], told["limit"]) == (found["id"], found["metrics"], 20)


def test_the_same_key_evaluates_once(client: httpx.Client, model: str) -> None:
    key = {"Idempotency-Key": uuid.uuid4().hex}
    first, again = (client.post("/evaluations", json={"model": model, "limit": 2}, headers=key) for _ in range(2))
    assert (first.status_code, first.json()["id"]) == (202, again.json()["id"])
    assert first.headers["location"] == f"/evaluations/{first.json()['id']}"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "nobody"}, 404, "model_not_found"),
        ({"split": "train"}, 422, "invalid_request"),
        ({"limit": 0}, 422, "invalid_request"),
        ({"kb": "nowhere"}, 404, "kb_not_found"),
        ({"kb": "family"}, 422, "bound_to_its_kb"),
        ({"nonsense": 1}, 422, "invalid_request"),
    ],
)
def test_bad_input_is_answered_with_what_to_do(
    client: httpx.Client, model: str, body: dict[str, Any], status: int, code: str
) -> None:
    assert asked(client, status, **{"model": model} | body)["code"] == code


def test_an_unknown_evaluation_is_not_waited_for(client: httpx.Client) -> None:
    for call in (client.get, client.delete):
        answer = call("/evaluations/job_unknown")
        assert (answer.status_code, answer.json()["code"]) == (404, "evaluation_not_found")


def test_the_client_evaluates_waits_and_deletes(api: Client, model: str) -> None:
    started = api.evaluations.create(model, "test", limit=5)
    found = api.evaluations.wait(started.id)
    assert (found.status, found.num_items) == ("succeeded", 5)
    assert found.id in [one.id for one in api.evaluations.list(model)]
    api.evaluations.delete(found.id)
    assert found.id not in [one.id for one in api.evaluations.list(model)]


def test_the_terminal_shows_a_table(service: RunningService, model: str) -> None:
    shown = CliRunner().invoke(app, ["evaluate", model, "--limit", "20", "--url", service.url])
    assert shown.exit_code == 0, shown.output
    assert all(word in shown.output for word in ("on 20 of test", "mrr", "asked for the object", "calibration error"))


def test_a_kb_of_one_file_can_hold_facts_out(client: httpx.Client) -> None:
    facts = [[f"a{i}", "p", f"b{i % 5}"] for i in range(40)]
    holdout = {"valid": 0.05, "test": 0.1}
    by_json = client.post("/kbs", json={"name": "held-json", "facts": facts, "holdout": holdout}).json()
    rows = "".join(f"{s}\t{p}\t{o}\n" for s, p, o in facts)

    def upload(**texts: str) -> httpx.Response:
        return client.post("/kbs", data={"name": "held-file", **texts}, files={"file": ("all.tsv", rows)})

    by_file = upload(holdout='{"valid": 0.05, "test": 0.1}').json()
    assert by_json["splits"] == by_file["splits"] == {"train": 34, "valid": 2, "test": 4}
    assert by_json["sha256"] == by_file["sha256"]
    for wrong in ('{"test": 2}', "nonsense"):
        answer = upload(holdout=wrong)
        assert (answer.status_code, "holdout" in answer.json()["detail"]) == (422, True)
