"""What the service says to somebody who made a small mistake, against the started service."""

from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(client: httpx.Client) -> str:
    """Named after its KB, as nothing else was asked for."""
    trained = client.post("/train?wait=120", json={"kb": "family"}).json()
    assert (trained["job"]["status"], trained["model"]["name"]) == ("succeeded", "family")
    reference = f"family@{trained['model']['version']}"
    assert trained["job"]["model"] == reference
    return reference


@pytest.mark.parametrize("file", ["head.tsv", "head.jsonl"])
def test_a_line_that_looks_like_a_header_is_pointed_out(client: httpx.Client, file: str) -> None:
    rows = {"head.tsv": b"Head\tRelation\tTail\na\tp\tb\n", "head.jsonl": b'["s","p","o"]\n["a","p","b"]\n'}
    kb = client.post("/kbs", data={"name": file}, files={"file": (file, rows[file])}).json()
    assert kb["num_facts"] == 2
    (warning,) = kb["warnings"]
    assert warning.startswith(f"{file}, line 1 looks like a header")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/kbs/famly", None),
        ("GET", "/kbs/famly/facts", None),
        ("GET", "/kbs/famly/export", None),
        ("DELETE", "/kbs/famly", None),
        ("GET", "/presets?kb=famly", None),
        ("POST", "/train", {"kb": "famly"}),
        ("GET", "/models/famly", None),
        ("GET", "/models/famly@1/rules", None),
        ("GET", "/models/famly/export", None),
        ("GET", "/models/compare?ids=famly,famly", None),
        ("POST", "/query", {"model": "famly", "goal": {"subject": "rick", "predicate": "parent"}}),
        ("POST", "/query", {"model": "family", "kb": "famly", "goal": {"subject": "rick", "predicate": "parent"}}),
    ],
)
def test_a_misspelt_kb_or_model_is_answered_with_the_nearest_names(
    client: httpx.Client, model: str, method: str, path: str, body: Any
) -> None:
    answer = client.request(method, path, json=body)
    assert answer.status_code == 404
    assert "family" in answer.json()["suggestions"]
    assert "did you mean 'family'" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "params", "status", "nearest"),
    [
        ("/kbs/family/facts", {"predicate": "parnt"}, 422, "parent"),
        ("/kbs/family/facts", {"subject": "Rik"}, 422, "rick"),
        ("/kbs/family/facts", {"object": "mortyy"}, 422, "morty"),
        ("/kbs/family/neighbourhood", {"entity": "rik"}, 404, "rick"),
        ("/models/family/rules", {"predicate": "grandparnt"}, 422, "grandparent"),
    ],
)
def test_a_misspelt_symbol_is_answered_with_the_nearest_names(
    client: httpx.Client, model: str, path: str, params: dict[str, str], status: int, nearest: str
) -> None:
    answer = client.get(path, params=params)
    assert answer.status_code == status
    assert nearest in answer.json()["suggestions"]
    assert repr(nearest) in answer.json()["detail"]


def test_a_predicate_without_rules_has_an_empty_list_of_them(client: httpx.Client, model: str) -> None:
    predicates = {item["name"] for item in client.get("/kbs/family/predicates").json()["items"]}
    ruled = {rule["head"]["predicate"] for rule in client.get(f"/models/{model}/rules?limit=1000").json()["items"]}
    for predicate in predicates - ruled:
        answer = client.get(f"/models/{model}/rules", params={"predicate": predicate})
        assert (answer.status_code, answer.json()["items"]) == (200, [])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"config": {"epohcs": 3}}, "config.epohcs: there is no such key (did you mean 'epochs'"),
        (
            {"config": {"method": "minerva", "xyzzy": 3}},
            "config.xyzzy: there is no such key: choose from method, seed, epochs",
        ),
        ({"config": {"epochs": "many"}}, "config.epochs: Input should be a valid integer"),
        ({"config": {"method": ["proofs"]}}, "config.method: there is no such method"),
        ({"config": {"method": "prooofs"}}, "config.method: there is no such method (did you mean 'proofs'"),
        (
            {"config": {"select": "ntp"}},
            "config.select: method 'proofs' has no such setting, only ctp: set `method`",
        ),
        ({"config": {"method": "nttp"}}, "config.method: there is no such method (did you mean 'ntp'"),
        ({"config": {"method": "ntp", "select": "linear"}}, "config.select: method 'ntp' is `ctp` with select 'ntp'"),
        ({"preset": "best", "config": {"rank": 3}}, "only complex, distmult, neurallp: use config.embedding.rank"),
        (
            {"preset": "best", "config": {"eval_every": 3}},
            "use config.proofs.eval_every or config.embedding.eval_every",
        ),
        (
            {"preset": "best", "config": {"select": "ntp"}},
            "only ctp: set `method` to one of these, or leave the setting out",
        ),
        (
            {"preset": "best", "config": {"embedding": {"rnak": 3}}},
            "config.embedding.rnak: there is no such key (did you mean 'rank'?)",
        ),
        ({"config": {"method": "rules", "rules": 7}}, "config: the setting `rules` is called `rules_per_template` now"),
        ({"config": {"method": "ctp", "prover": "exact"}}, "does not read `prover` on a KB of kind 'facts': leave it"),
        ({"prest": "fast"}, "prest: there is no such key (did you mean 'preset'?)"),
    ],
)
def test_a_misspelt_setting_is_told_where_it_stands_and_what_may_be_meant(
    client: httpx.Client, body: dict[str, Any], said: str
) -> None:
    answer = client.post("/train", json={"kb": "family", "name": "hinted", **body})
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


@pytest.mark.parametrize("system", ["ntp", "gntp"])
def test_the_provers_with_fixed_rules_are_trained_by_their_own_names(client: httpx.Client, system: str) -> None:
    body = {"kb": "family", "name": system, "config": {"method": system, "epochs": 1}}
    trained = client.post("/train?wait=120", json=body).json()
    assert trained["job"]["status"] == "succeeded"
    config = client.get(f"/models/{trained['model']['id']}").json()["config"]
    assert (config["method"], config["select"]) == ("ctp", system)


def test_a_misspelt_predicate_of_a_fixed_rule_is_told_before_it_trains(client: httpx.Client) -> None:
    graph = b'{"facts":[["a","mother","b"],["b","mother","c"]],"subject":"a","object":"c","label":"grandmother"}'
    files = {"train": ("kin.jsonl", graph)}
    assert client.post("/kbs", data={"name": "misspelt", "kind": "graphs"}, files=files).status_code == 201
    rules = ["grandmother(X,Y) :- mother(X,Z), mothr(Z,Y)."]
    answer = client.post("/train", json={"kb": "misspelt", "config": {"rules": rules}})
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_symbol")
    assert answer.json()["suggestions"][0] == "mother"
    assert "'mothr' in 'misspelt', which config.rules names" in answer.json()["detail"]


@pytest.mark.parametrize("goal", ["grandparent(rick, Y)", ["rick", "grandparent", None]])
def test_a_goal_that_is_no_object_is_shown_one(client: httpx.Client, goal: Any) -> None:
    answer = client.post("/query", json={"model": "family", "goal": goal})
    assert answer.status_code == 422
    example = '{"subject": "rick", "predicate": "grandparent", "object": null}'
    assert answer.json()["detail"] == f"goal: this should be an object, e.g. {example}"
    nested = client.post("/query", json={"model": "family", "goals": [{"subjet": "rick"}]})
    assert "goals.0.subjet: there is no such key (did you mean 'subject'" in nested.json()["detail"]


@pytest.mark.parametrize(("path", "known"), [("/jobs", "'succeeded'"), ("/models", "'ready'")])
def test_a_status_that_nothing_can_have_is_refused(client: httpx.Client, path: str, known: str) -> None:
    answer = client.get(path, params={"status": "done"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["place"] == "query.status"
    assert known in answer.json()["detail"]


def test_a_bare_name_deletes_nothing(client: httpx.Client) -> None:
    for _ in range(2):
        client.post("/train?wait=120", json={"kb": "family", "name": "twofold"}).raise_for_status()
    refused = client.delete("/models/twofold")
    assert (refused.status_code, refused.json()["code"]) == (409, "version_needed")
    assert "twofold@2, twofold@1" in refused.json()["detail"]
    assert client.delete("/models/twofold@1").status_code == 204
    assert client.get("/models/twofold").json()["version"] == 2


@pytest.mark.parametrize(
    ("method", "path", "place", "said"),
    [
        ("GET", "/models?nmae=x", "nmae", "(did you mean 'name'?)"),
        ("GET", "/kbs?limt=3", "limt", "(did you mean 'limit'?)"),
        ("GET", "/kbs/family/facts?predicat=parent&limit=1", "predicat", "(did you mean 'predicate'?)"),
        ("GET", "/models/compare?id=family", "id", "(did you mean 'ids'?)"),
        ("GET", "/jobs?size=3", "size", ": this call takes status, type, limit, cursor"),
        ("GET", "/kbs/family?verbose=1", "verbose", ": this call takes none"),
        ("POST", "/train?wiat=3", "wiat", "(did you mean 'wait'?)"),
        ("POST", "/query?top_k=3", "top_k", ": this call takes none"),
        ("DELETE", "/kbs/family?force=1", "force", ": this call takes none"),
    ],
)
def test_a_parameter_that_a_call_does_not_have_is_refused(
    client: httpx.Client, method: str, path: str, place: str, said: str
) -> None:
    answer = client.request(method, path, json={"kb": "family"} if method == "POST" else None)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    (fault,) = answer.json()["errors"]
    assert fault["place"] == f"query.{place}"
    assert fault["reason"].startswith("there is no such parameter")
    assert fault["reason"].endswith(said)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/"])
def test_probes_and_links_may_add_parameters(client: httpx.Client, path: str) -> None:
    assert client.get(path, params={"from": "somewhere"}).status_code == 200
