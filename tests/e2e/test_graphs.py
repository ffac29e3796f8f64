"""Relation prediction through the service: small graphs in, the relation between two people out, with its proof."""

import json
import re
import subprocess
import sys

import httpx
import pytest

from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.kb.formats.graphs_jsonl import write_graphs_jsonl
from ctp_core.kb.knowledge_base import Graph

pytestmark = pytest.mark.slow


def jsonl(graphs: list[Graph]) -> bytes:
    return "".join(write_graphs_jsonl(graphs)).encode()


@pytest.fixture(scope="module")
def model(client: httpx.Client) -> str:
    graphs = family_graphs(600, lengths=(2, 3), seed=1)
    form = {"name": "chains", "kind": "graphs", "format": "jsonl"}
    kb = client.post("/kbs", data=form, files={"file": ("chains.jsonl", jsonl(graphs))})
    assert kb.status_code == 201, kb.text
    assert kb.json()["kind"] == "graphs"
    answer = client.post("/train", params={"wait": 240}, json={"kb": "chains", "name": "chains"}, timeout=270).json()
    assert answer["job"]["status"] == "succeeded", answer["job"]["error"]
    return "chains"


def test_the_relation_at_the_ends_of_a_longer_chain_is_found_with_its_proof(client: httpx.Client, model: str) -> None:
    graphs = family_graphs(25, lengths=(6,), seed=2)
    right = 0
    for graph in graphs:
        goal = {"subject": graph.subject, "predicate": None, "object": graph.object}
        body = {"model": model, "goal": goal, "facts": [list(fact) for fact in graph.facts], "proofs": 1}
        answers = client.post("/query", json=body).json()["answers"]
        right += answers[0]["predicate"] == graph.label
        leaves = answers[0]["proofs"][0]["text"].split(" ⇐ ")[1]
        assert set(leaves.replace("), ", ")|").split("|")) <= {str(fact) for fact in graph.facts}
    assert right >= 24


def test_a_graph_model_asked_without_a_graph_says_what_to_send(client: httpx.Client, model: str) -> None:
    answer = client.post("/query", json={"model": model, "goal": {"subject": "a", "object": "b"}})
    assert answer.status_code == 422
    assert "facts" in answer.json()["detail"]


def test_the_rules_of_a_graph_model_are_listed(client: httpx.Client, model: str) -> None:
    rules = client.get(f"/models/{model}/rules", params={"limit": 1000}).json()["items"]
    assert "grandfather(X,Y) :- mother(X,Z), father(Z,Y)" in [rule["text"] for rule in rules]


def test_a_network_is_trained_by_name_and_answers_alike_but_without_proofs(client: httpx.Client, model: str) -> None:
    config = {"method": "gru", "epochs": 2}
    body = {"kb": "chains", "name": "chains-gru", "preset": "paper", "config": config}
    trained = client.post("/train", params={"wait": 240}, json=body, timeout=270).json()
    assert trained["job"]["status"] == "succeeded", trained["job"]["error"]
    found = client.get("/models/chains-gru").json()
    assert (found["method"], found["config"]["hidden"], found["config"]["few_names"]) == ("gru", 64, True)
    [graph] = family_graphs(1, lengths=(4,), seed=2)
    goal = {"subject": graph.subject, "predicate": None, "object": graph.object}
    facts = [list(fact) for fact in graph.facts]
    answer = client.post("/query", json={"model": "chains-gru", "goal": goal, "facts": facts}).json()
    assert answer["explainable"] is False
    assert all(one["proofs"] == [] and 0 <= one["score"] <= 1 for one in answer["answers"])
    assert client.get("/models/chains-gru/rules").json()["items"] == []


def test_the_settings_of_a_method_are_shown_before_it_is_trained(client: httpx.Client, model: str) -> None:
    short, long = client.get("/presets", params={"kb": "chains", "method": "lstm"}).json()["items"][2:]
    assert (short["name"], long["name"]) == ("paper", "paper-long")
    assert [preset["config"]["hidden"] for preset in (short, long)] == [64, 512]
    assert {"ctp", "lstm", "gat", "ntp"} <= set(short["methods"])
    assert client.get("/presets", params={"kb": "chains", "method": "complex"}).json()["code"] == "bad_config"


def test_a_method_of_the_other_kind_is_refused_before_it_is_queued(client: httpx.Client, model: str) -> None:
    for kb, method in (("chains", "complex"), ("family", "lstm")):
        answer = client.post("/train", json={"kb": kb, "name": "wrong", "config": {"method": method}})
        assert answer.status_code == 422
        assert answer.json()["code"] == "bad_config"
        assert "choose from" in answer.json()["detail"]


@pytest.fixture(scope="module")
def rivals(client: httpx.Client) -> list[str]:
    """A prover and a network on graphs with a test split; the network had no time to learn."""
    splits = {"train": family_graphs(300, (2, 3), seed=1), "test": family_graphs(20, (3, 5), seed=2)}
    files = {split: (f"{split}.jsonl", jsonl(graphs)) for split, graphs in splits.items()}
    form = {"name": "contest", "kind": "graphs", "format": "jsonl"}
    assert client.post("/kbs", data=form, files=files).status_code == 201
    for name, config in (("prover", {}), ("network", {"method": "rnn", "epochs": 1})):
        body = {"kb": "contest", "name": name, "config": config}
        trained = client.post("/train", params={"wait": 240}, json=body, timeout=270).json()
        assert trained["job"]["status"] == "succeeded", trained["job"]["error"]
    return ["prover", "network"]


def test_versions_are_asked_the_same_questions_and_disagreements_come_with_proofs(
    client: httpx.Client, rivals: list[str]
) -> None:
    compared = client.get("/models/compare", params={"ids": ",".join(rivals)}, timeout=60).json()
    contest = compared["contest"]
    assert compared["note"] is None
    assert (contest["split"], contest["num_questions"]) == ("test", 20)
    everything, *groups = contest["groups"]
    assert {group["name"] for group in groups} == {"3 facts", "5 facts"}
    assert sum(group["num_questions"] for group in groups) == everything["num_questions"] == 20
    assert everything["right"][0] > 0.9 > everything["right"][1]
    assert everything["p_values"][0] is None
    assert everything["p_values"][1] < 0.01
    for row in contest["disagreements"]:
        prover, network = row["answers"]
        assert prover["answer"] != network["answer"]
        assert prover["right"] == (prover["answer"] == row["expected"])
        assert network["proof"] is None
        leaves = prover["proof"].split(" ⇐ ")[1]
        stated = {f"{predicate}({subject}, {object_})" for subject, predicate, object_ in row["facts"]}
        assert set(leaves.replace("), ", ")|").split("|")) <= stated
    assert contest["num_disagreements"] == len(contest["disagreements"]) > 1
    asked = {"ids": ", ".join(rivals), "disagreements": 1}
    one = client.get("/models/compare", params=asked, timeout=60).json()["contest"]
    assert one["num_disagreements"] == contest["num_disagreements"]
    assert one["disagreements"] == contest["disagreements"][:1]
    fewer = client.get("/models/compare", params={"ids": ",".join(rivals), "questions": 4}, timeout=60).json()
    assert (fewer["contest"]["num_questions"], fewer["contest"]["num_available"]) == (4, 20)
    none = client.get("/models/compare", params={"ids": ",".join(rivals), "questions": 0}).json()
    assert (none["contest"], none["note"]) == (None, "no questions were asked for")


def test_the_terminal_shows_the_comparison_as_tables(client: httpx.Client, rivals: list[str]) -> None:
    command = [sys.executable, "-m", "service.cli", "models", "compare", *rivals, "--url", str(client.base_url)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "right, test" in done.stdout
    assert "5 facts" in done.stdout
    assert "prover@1" in done.stdout
    assert " ⇐ " in done.stdout
    assert re.search(r"network@1: \d+ of 20 right, \d+ fewer than prover@1: hardly chance", done.stdout)
    as_json = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout)
    assert [model["name"] for model in as_json["models"]] == rivals


def test_models_of_different_kbs_are_compared_but_not_asked(
    client: httpx.Client, rivals: list[str], model: str
) -> None:
    compared = client.get("/models/compare", params={"ids": f"{rivals[0]},{model}"}).json()
    assert compared["contest"] is None
    assert "different KBs" in compared["note"]
