"""Training jobs over HTTP, against the started service."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.slow
# A method whose epochs are those of its setting: `proofs` counts mining and the choice of shares, too.
PLAIN = {"method": "distmult", "search": []}
QUICK = {**PLAIN, "epochs": 2}
LONG = {"epochs": 10_000}


def train(client: httpx.Client, wait: float = 200, **body: Any) -> dict[str, Any]:
    body = {"kb": "family", "name": f"m-{uuid.uuid4().hex[:8]}", "config": QUICK} | body
    answer = client.post("/train", params={"wait": wait}, json=body, timeout=wait + 60)
    assert answer.status_code == 202, answer.text
    trained: dict[str, Any] = answer.json()
    return trained


def events(client: httpx.Client, job_id: str, last: str | None = None) -> Iterator[tuple[str, str, Any]]:
    """(name, id, data) of each event until the stream ends."""
    headers = {"Last-Event-ID": last} if last else {}
    with client.stream("GET", f"/jobs/{job_id}/events", headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if line and name:
                fields[name] = value
            elif "data" in fields:
                yield fields["event"], fields["id"], json.loads(fields["data"])
                fields = {}


def test_a_training_ends_in_a_model_that_is_ready(client: httpx.Client) -> None:
    trained = train(client, tags={"why": "test"})
    assert (trained["job"]["status"], trained["model"]["status"]) == ("succeeded", "ready")
    assert trained["job"]["progress"]["epoch"] == 2
    model = client.get(f"/models/{trained['model']['id']}").json()
    assert model["tags"] == {"why": "test"}
    assert model["lineage"]["job_id"] == model["lineage"]["trained_by"] == trained["job"]["id"]


def test_events_tell_every_epoch_and_end_with_the_job(client: httpx.Client) -> None:
    job = train(client, wait=0, config={**PLAIN, "epochs": 5})["job"]
    seen = list(events(client, job["id"]))
    assert [data["epoch"] for name, _, data in seen if name == "epoch"] == [1, 2, 3, 4, 5]
    name, last, data = seen[-1]
    assert (name, data["status"], data["progress"]["eta_seconds"]) == ("status", "succeeded", 0.0)
    assert client.get(f"/jobs/{job['id']}/events", headers={"Last-Event-ID": last}).status_code == 204


def test_a_listener_that_comes_back_gets_only_what_it_missed(client: httpx.Client) -> None:
    job = train(client, config={**PLAIN, "epochs": 5})["job"]
    seen = list(events(client, job["id"]))
    third = next(number for name, number, data in seen if name == "epoch" and data["epoch"] == 3)
    missed = [data["epoch"] for name, _, data in events(client, job["id"], third) if name == "epoch"]
    assert missed == [4, 5]


def test_an_event_id_of_others_is_refused(client: httpx.Client) -> None:
    job = train(client)["job"]
    answer = client.get(f"/jobs/{job['id']}/events", headers={"Last-Event-ID": "no"})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_event_id")


def test_of_several_seeds_the_best_on_validation_is_registered(client: httpx.Client) -> None:
    trained = train(
        client,
        kb="nations",
        config={"method": "ctp", "epochs": 3, "eval_every": 1, "search": []},
        seeds=[5, 3, 8],
        wait=200,
    )
    job, model = trained["job"], client.get(f"/models/{trained['model']['id']}").json()
    assert [(child["seed"], child["status"]) for child in job["children"]] == [(s, "succeeded") for s in (5, 3, 8)]
    assert (job["status"], model["status"]) == ("succeeded", "ready")

    def best_mrr(seed: int) -> float:
        epochs = client.get(f"/models/{model['id']}/metrics", params={"seed": seed}).json()["items"]
        return max(epoch["metrics"]["mrr"] for epoch in epochs)

    scores = {seed: best_mrr(seed) for seed in (5, 3, 8)}
    assert model["metrics"]["mrr"] == scores[model["lineage"]["seed"]] == max(scores.values())
    winner = next(child for child in job["children"] if child["seed"] == model["config"]["seed"])
    assert model["lineage"]["trained_by"] == winner["id"]
    assert {row["seed"] for row in client.get(f"/models/{model['id']}/checkpoints").json()["items"]} == {winner["seed"]}
    assert client.get(f"/models/{model['id']}/rules").json()["items"]


def test_events_of_several_seeds_carry_their_seed(client: httpx.Client) -> None:
    job = train(client, seeds=[0, 1])["job"]
    assert job["progress"].keys() == job["children"][0]["progress"].keys()
    assert (job["progress"]["epoch"], job["progress"]["epochs"]) == (4, 4)
    epochs = {(data["seed"], data["epoch"]) for name, _, data in events(client, job["id"]) if name == "epoch"}
    assert epochs == {(seed, epoch) for seed in (0, 1) for epoch in (1, 2)}


@pytest.mark.parametrize("seeds", [[], [1, 1], [-1], list(range(33))])
def test_seeds_that_make_no_sense_are_refused(client: httpx.Client, seeds: list[int]) -> None:
    answer = client.post("/train", json={"kb": "family", "name": "m", "seeds": seeds})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_the_same_idempotency_key_trains_once(client: httpx.Client) -> None:
    body = {"kb": "family", "name": f"m-{uuid.uuid4().hex[:8]}", "config": QUICK}
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    first, second = (client.post("/train", json=body, headers=headers) for _ in range(2))
    assert first.json() == second.json()
    assert first.headers["location"] == second.headers["location"]
    assert len(client.get("/models", params={"name": body["name"]}).json()["items"]) == 1


def test_another_body_under_the_same_idempotency_key_is_refused(client: httpx.Client) -> None:
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    body = {"kb": "family", "name": f"m-{uuid.uuid4().hex[:8]}", "config": QUICK}
    client.post("/train", json=body, headers=headers)
    answer = client.post("/train", json=body | {"priority": 1}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")


def test_a_refused_call_uses_up_no_idempotency_key(client: httpx.Client) -> None:
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    name = f"m-{uuid.uuid4().hex[:8]}"
    assert client.post("/train", json={"kb": "nowhere", "name": name}, headers=headers).status_code == 404
    good = {"kb": "family", "name": name, "config": QUICK}
    assert client.post("/train", json=good, headers=headers).status_code == 202


def test_a_cancelled_version_keeps_its_number_and_has_no_files(client: httpx.Client) -> None:
    trained = train(client, wait=0, config=LONG)
    job_id, model = trained["job"]["id"], trained["model"]
    assert client.post(f"/jobs/{job_id}/cancel").json()["status"] == "cancelled"
    again = client.post(f"/jobs/{job_id}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "job_finished")
    assert client.get(f"/models/{model['id']}").json()["status"] == "cancelled"
    assert train(client, name=model["name"])["model"]["version"] == model["version"] + 1


def test_cancelling_a_job_cancels_all_its_seeds(client: httpx.Client) -> None:
    job = train(client, wait=0, config=LONG, seeds=[0, 1])["job"]
    cancelled = client.post(f"/jobs/{job['id']}/cancel").json()
    assert [child["status"] for child in cancelled["children"]] == ["cancelled"] * 2


def test_jobs_are_listed_newest_first_and_by_status(client: httpx.Client) -> None:
    job = train(client)["job"]
    listed = client.get("/jobs", params={"status": "succeeded"}).json()["items"]
    assert listed[0]["id"] == job["id"]
    assert {item["status"] for item in listed} == {"succeeded"}


def test_presets_and_jobs_tell_what_a_training_is_expected_to_cost(client: httpx.Client) -> None:
    presets = client.get("/presets", params={"kb": "umls"}).json()["items"]
    assert all(preset["forecast"]["peak_bytes"] > 200_000_000 for preset in presets)
    assert all(preset["forecast"]["cpu_seconds"] > 0 and preset["forecast"]["basis"] for preset in presets)
    job = train(client)["job"]
    assert job["forecast"]["peak_bytes"] > 200_000_000
    assert client.get(f"/jobs/{job['id']}").json()["forecast"] == job["forecast"]
