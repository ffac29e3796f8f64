"""Queries against the started service: other KBs, limits, workers that die, models that go away, ids in the logs."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.local.cluster import Cluster, wait_for
from tests.running import RunningService, running_service

pytestmark = pytest.mark.slow
GOAL = {"subject": None, "predicate": "grandparent", "object": "morty"}


def train(client: httpx.Client, name: str) -> dict[str, Any]:
    answer = client.post("/train?wait=120", json={"kb": "family", "name": name}).json()
    assert answer["job"]["status"] == "succeeded"
    model: dict[str, Any] = answer["model"]
    return model


@pytest.fixture(scope="module")
def model(client: httpx.Client) -> str:
    return str(train(client, "asked")["id"])


def test_many_goals_are_answered_in_their_order(client: httpx.Client, model: str) -> None:
    goals = [GOAL, {"subject": "rick", "predicate": "parent", "object": "beth"}]
    answer = client.post("/query", json={"model": model, "goals": goals}).json()
    assert [result["goal"] for result in answer["results"]] == goals
    assert [len(result["answers"]) for result in answer["results"]] == [10, 1]
    alone = client.post("/query", json={"model": model, "goal": GOAL}).json()
    assert alone["answers"] == answer["results"][0]["answers"]


def test_a_model_answers_on_another_kb_with_the_facts_that_are_there(client: httpx.Client, model: str) -> None:
    facts = [["ann", "parent", "bob"], ["bob", "parent", "cem"], ["ann", "unheard_of", "cem"]]
    client.post("/kbs", json={"name": "elsewhere", "facts": facts}).raise_for_status()
    question = {
        "model": model,
        "kb": "elsewhere",
        "goal": {"subject": "ann", "predicate": "grandparent", "object": None},
    }
    best = client.post("/query", json=question).json()["answers"][0]
    assert best["object"] == "cem"
    assert best["proofs"][0]["text"] == "grandparent(ann, cem) ⇐ parent(ann, bob), parent(bob, cem)"
    unknown = client.post("/query", json={**question, "kb": "nowhere"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "kb_not_found")
    client.post("/kbs", json={"name": "strange", "facts": [["a", "unheard_of", "b"]]}).raise_for_status()
    refused = client.post("/query", json={**question, "kb": "strange"})
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_question")


@pytest.mark.parametrize(
    ("more", "code", "setting"),
    [
        ({"goals": [GOAL] * 257, "goal": None}, "too_many_goals", "CTP_MAX_GOALS"),
        ({"top_k": 1000, "proofs": 100}, "too_many_results", "CTP_MAX_QUERY_RESULTS"),
        ({"facts": [["a", "p", "b"]] * 10_001}, "too_many_facts", "CTP_MAX_QUERY_FACTS"),
    ],
)
def test_a_query_that_asks_for_too_much_is_told_the_limit(
    client: httpx.Client, model: str, more: dict[str, Any], code: str, setting: str
) -> None:
    body = {"model": model, "goal": GOAL} | more
    answer = client.post("/query", json={key: value for key, value in body.items() if value is not None})
    assert (answer.status_code, answer.json()["code"]) == (413, code)
    assert setting in answer.json()["detail"]


def test_the_id_of_a_request_is_in_the_lines_of_api_and_worker(
    service: RunningService, client: httpx.Client, model: str
) -> None:
    answer = client.post("/query", json={"model": model, "goal": GOAL}, headers={"X-Request-Id": "find-me-1"})
    assert answer.headers["x-request-id"] == "find-me-1"
    logs = service.folder / "logs"

    def written() -> set[str]:  # both are written after the answer has left
        api = lines(logs / "api.log", lambda line: line.get("request_id") == "find-me-1")
        worker = lines(logs / "query.log", lambda line: "find-me-1" in line.get("request_ids", []))
        return {line["event"] for line in (*api, *worker)}

    wait_for(lambda: {"request", "batch_answered"} <= written(), "both have a line with the id", 60)
    assert written() == {"request", "batch_answered"}


def lines(log: Path, wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    parsed = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
    return [line for line in parsed if wanted(line)]


def test_an_id_that_would_break_a_line_is_replaced(client: httpx.Client) -> None:
    answer = client.get("/kbs", headers={"X-Request-Id": "a b"})
    assert answer.headers["x-request-id"] != "a b"


def num_batches(client: httpx.Client) -> float:
    """How many were sent to workers so far."""
    text = client.get("/metrics").text
    return float(next(line for line in text.splitlines() if line.startswith("ctp_batch_questions_count")).split()[1])


def test_questions_that_come_together_are_sent_together(client: httpx.Client, model: str) -> None:
    def ask(_: int) -> int:
        return client.post("/query", json={"model": model, "goal": GOAL, "proofs": 0}).status_code

    before = num_batches(client)
    with ThreadPoolExecutor(32) as pool:
        assert set(pool.map(ask, range(320))) == {200}
    assert num_batches(client) - before < 160


def test_metrics_tell_of_requests_batches_jobs_queues_and_the_cache(client: httpx.Client, model: str) -> None:
    client.post("/query", json={"model": model, "goal": GOAL}).raise_for_status()
    text = client.get("/metrics").text
    for name in (
        'ctp_requests_total{method="POST",route="/query",status="200"}',
        'ctp_request_seconds_bucket{le="0.1",method="POST",route="/query"}',
        "ctp_batch_questions_bucket",
        'ctp_jobs{state="succeeded"}',
        'ctp_queue_depth{queue="query"}',
        "ctp_model_cache_hits_total",
        'ctp_part_up{part="query_worker"} 1.0',
    ):
        assert name in text


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service whose parts are hurt by these tests."""
    with running_service(tmp_path_factory.mktemp("fragile"), reply_seconds="45") as running:
        yield running


@pytest.fixture(scope="module")
def lost(fragile: RunningService) -> str:
    """A model of the service whose parts are hurt."""
    with fragile.client() as client:
        return str(train(client, "lost")["id"])


def test_a_query_whose_worker_dies_is_asked_once_more_and_answered(fragile: RunningService, lost: str) -> None:
    with fragile.client() as client, ThreadPoolExecutor(1) as pool:
        # A worker that is stopped takes the batch and never answers; then it dies of it.
        worker = fragile.children()["query"]
        os.kill(worker, signal.SIGSTOP)
        before = num_batches(client)
        asked = pool.submit(client.post, "/query", json={"model": lost, "goal": GOAL})
        wait_for(lambda: num_batches(client) > before, "the question is on its way", 60)
        os.kill(worker, signal.SIGKILL)
        answer = asked.result(200)
        assert answer.status_code == 200
    assert lines(fragile.folder / "logs" / "api.log", lambda line: line["event"] == "query_worker_lost")


@contextmanager
def impatient(running: RunningService) -> Iterator[httpx.Client]:
    """A second API of the same service that waits two seconds for a query worker."""
    cluster = Cluster(running.folder, {"reply_seconds": "2"})
    try:
        cluster.start("api-2")
        with httpx.Client(base_url=cluster.url("api-2"), timeout=120) as client:
            yield client
    finally:
        cluster.parts["api-2"].stop()


def test_without_a_query_worker_the_answer_is_503_and_readyz_says_why(fragile: RunningService, lost: str) -> None:
    with impatient(fragile) as client:
        worker = fragile.children()["query"]
        os.kill(worker, signal.SIGSTOP)
        try:
            answer = client.post("/query", json={"model": lost, "goal": GOAL})
            assert (answer.status_code, answer.json()["code"]) == (503, "no_query_worker")
            assert int(answer.headers["retry-after"]) > 0
            # A worker counts as there until it has been silent for a while.
            wait_for(lambda: client.get("/readyz").status_code == 503, "readyz misses the worker", 60)
            assert client.get("/readyz").json()["parts"]["query_worker"] == "missing"
            assert client.get("/healthz").status_code == 200
        finally:
            os.kill(worker, signal.SIGCONT)


def test_a_damaged_or_deleted_model_says_so(fragile: RunningService) -> None:
    with fragile.client() as client:
        damaged, deleted = train(client, "damaged"), train(client, "deleted")
        shutil.rmtree(fragile.folder / "artifacts" / "models" / damaged["id"])
        answer = client.post("/query", json={"model": damaged["id"], "goal": GOAL})
        assert (answer.status_code, answer.json()["code"]) == (409, "bad_artifact")
        client.post("/query", json={"model": deleted["id"], "goal": GOAL}).raise_for_status()
        client.delete(f"/models/{deleted['id']}").raise_for_status()
        deleted_at = sent = time.monotonic()
        while (answer := client.post("/query", json={"model": deleted["id"], "goal": GOAL})).status_code == 200:
            assert sent - deleted_at < 2, "a name is remembered for two seconds"
            sent = time.monotonic()
        assert (answer.status_code, answer.json()["code"]) == (409, "model_not_ready")
        assert "deleted" in answer.json()["detail"]


def test_a_goal_that_cannot_be_asked_is_the_only_one_without_an_answer(client: httpx.Client, model: str) -> None:
    goals = [GOAL, GOAL | {"predicate": "grandparrent"}, GOAL | {"object": None}, GOAL]
    answer = client.post("/query", json={"model": model, "goals": goals, "top_k": 1})
    assert answer.status_code == 200
    first, unknown, open_, last = answer.json()["results"]
    assert first["answers"] == last["answers"] != []
    assert (unknown["goal"], unknown["problem"]["code"]) == (goals[1], "unknown_symbol")
    assert unknown["problem"]["suggestions"][0] == "grandparent"
    assert (open_["problem"]["status"], "answers" in open_) == (422, False)
    every = client.post("/query", json={"model": model, "goals": [goals[1]] * 2}).json()["results"]
    assert [result["problem"]["code"] for result in every] == ["unknown_symbol"] * 2
    lost = client.post("/query", json={"model": "nobody", "goals": [GOAL]})
    assert (lost.status_code, lost.json()["code"]) == (404, "model_not_found")
