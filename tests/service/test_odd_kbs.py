"""KBs at the edge of what can be learnt from, through the calls a user makes."""

import uuid
from typing import Any

import httpx
import pytest

from tests.service.test_jobs import events, train

pytestmark = pytest.mark.slow
PRESETS = ("fast", "best", "paper", "paper-long")
ODD: dict[str, list[tuple[str, str, str]]] = {
    "one entity": [("a", "p", "a")],
    "one fact": [("a", "p", "b")],
    "only loops": [("a", "p", "a"), ("b", "p", "b"), ("b", "q", "b")],
    "a predicate with one fact": [("a", "p", "b"), ("b", "p", "c"), ("a", "once", "c")],
}


def create(client: httpx.Client, facts: list[tuple[str, str, str]]) -> str:
    name = f"odd-{uuid.uuid4().hex[:8]}"
    answer = client.post("/kbs", json={"name": name, "kind": "facts", "facts": facts})
    assert answer.status_code == 201, answer.text
    return name


def ask(client: httpx.Client, model: str, **places: str | None) -> list[dict[str, Any]]:
    goal = {"subject": None, "predicate": "p", "object": None} | places
    answer = client.post("/query", json={"model": model, "goal": goal, "top_k": 100})
    assert answer.status_code == 200, answer.text
    answers: list[dict[str, Any]] = answer.json()["answers"]
    return answers


@pytest.mark.parametrize("facts", ODD.values(), ids=ODD)
def test_an_odd_kb_trains_with_every_preset_and_answers_every_kind_of_question(
    client: httpx.Client, facts: list[tuple[str, str, str]]
) -> None:
    kb = create(client, facts)
    entities = {entity for subject, _, object_ in facts for entity in (subject, object_)}
    for preset in PRESETS:
        trained = train(client, kb=kb, preset=preset, config={})
        assert trained["model"]["status"] == "ready", (preset, trained["job"]["error"])
        model = trained["model"]["id"]
        subject, _, object_ = facts[0]
        by_object = ask(client, model, subject=subject)
        assert {answer["object"] for answer in by_object} == entities
        assert {answer["subject"] for answer in ask(client, model, object=object_)} == entities
        assert next(a["known"] for a in by_object if a["object"] == object_)
        (one,) = ask(client, model, subject=subject, object=object_)
        assert one["score"] == pytest.approx(next(a["score"] for a in by_object if a["object"] == object_), abs=1e-6)
        assert ask(client, model, subject=subject, predicate=None, object=object_)
        assert client.get(f"/models/{model}/rules").status_code == 200


def test_an_entity_without_any_training_fact_is_ranked_and_asked(client: httpx.Client) -> None:
    name = f"odd-{uuid.uuid4().hex[:8]}"
    files = {"train": b"a\tp\tb\nb\tp\tc\nc\tq\ta\n", "valid": b"a\tp\tlonely\n"}
    uploads = {split: (f"{split}.tsv", content) for split, content in files.items()}
    answer = client.post("/kbs", data={"name": name, "kind": "facts"}, files=uploads)
    assert answer.status_code == 201, answer.text
    for preset in PRESETS:
        model = train(client, kb=name, preset=preset, config={})["model"]
        assert model["status"] == "ready"
        assert len(ask(client, model["id"], subject="lonely")) == 4
        assert "lonely" in {answer["object"] for answer in ask(client, model["id"], subject="b")}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_benchmark_kb_needs_no_further_settings(client: httpx.Client, preset: str) -> None:
    job = train(client, wait=0, kb="nations", preset=preset, config={})["job"]
    for name, _, data in events(client, job["id"]):
        if name == "epoch":
            assert data["epoch"] == 1
            assert (data["loss"] is None) == (preset in ("fast", "best")), "the losses of a search say nothing"
            break
    assert client.post(f"/jobs/{job['id']}/cancel").status_code == 200


def test_the_facts_behind_rules_about_one_entity_and_with_constants(client: httpx.Client) -> None:
    people = [(f"person{i}", "lives in", "Paris" if i % 2 else "Rome") for i in range(12)]
    speech = [(f"person{i}", "speaks", "french" if i % 2 else "italian") for i in range(10)]
    kb = create(client, [*people, *speech])
    model = train(client, kb=kb, config={"method": "rules", "max_length": 2})["model"]["id"]
    everything = {"limit": 1000, "constants": True, "priors": True, "min_support": 0}
    rules = {rule["text"]: rule for rule in client.get(f"/models/{model}/rules", params=everything).json()["items"]}
    first = {"limit": 1, "constants": True, "priors": True}
    chosen = rules["speaks(X,'french') :- lives in(X,'Paris')"]
    found = client.get(f"/models/{model}/rules/{chosen['id']}/groundings", params={"limit": 100}).json()["items"]
    assert [grounding["known"] for grounding in found] == [True] * 5 + [False]
    assert all(grounding["facts"][0]["object"] == "Paris" for grounding in found)
    assert (chosen["support"], chosen["confidence"]) == (5, pytest.approx(5 / (6 + 5)))
    assert chosen["weight"] > 0
    listed = client.get(f"/models/{model}/rules").json()["items"]
    assert not any("'" in rule["text"].replace("lives in", "") or rule["prior"] for rule in listed)
    accepted = {"Accept": "text/plain"}
    program = client.get(f"/models/{model}/rules", params=first, headers=accepted)
    assert program.text.endswith(".\n")
    assert "'lives in'(" in client.get(f"/models/{model}/rules", params=everything, headers=accepted).text, (
        "names that Prolog can read"
    )
    following = client.get(program.links["next"]["url"], headers=accepted)
    assert (following.status_code, following.text == program.text) == (200, False)
    table = client.get(f"/models/{model}/rules", params=first, headers={"Accept": "text/csv"})
    assert table.links["next"]["url"] == program.links["next"]["url"]
    assert client.get(f"/models/{model}/export").status_code == 200
    for rule in rules.values():
        answer = client.get(f"/models/{model}/rules/{rule['id']}/groundings")
        assert answer.status_code == 200, (rule["text"], answer.text)
        assert answer.json()["items"]
