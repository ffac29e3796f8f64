"""The registry over HTTP, against the started service."""

import io
import json
import uuid
import zipfile
from typing import Any

import httpx
import numpy as np
import pytest
import safetensors.numpy
from sqlalchemy import select

from ctp_core.manifest import encode_manifest
from service.db.clock import now
from service.db.engine import Database
from service.db.tables import Removal
from service.models.archive import CARD
from service.settings import Settings
from tests.running import RunningService
from tests.service.test_jobs import train

pytestmark = pytest.mark.slow
GOAL = {"subject": "rick", "predicate": "grandparent", "object": None}


@pytest.fixture(scope="module")
def model(client: httpx.Client) -> dict[str, Any]:
    """A model that no test changes."""
    trained: dict[str, Any] = client.get(f"/models/{train(client, config={'epochs': 30})['model']['id']}").json()
    return trained


@pytest.fixture(scope="module")
def archive(client: httpx.Client, model: dict[str, Any]) -> bytes:
    return client.get(f"/models/{model['id']}/export").content


def send(client: httpx.Client, archive: bytes, **headers: str) -> httpx.Response:
    name = f"m-{uuid.uuid4().hex[:8]}"
    return client.post(
        "/models/import", params={"name": name}, content=archive, headers={"content-type": "application/zip"} | headers
    )


def test_an_alias_moves_between_versions(client: httpx.Client) -> None:
    first = train(client)["model"]
    second = train(client, name=first["name"])["model"]
    for version, model in ((1, first), (2, second)):
        answer = client.put(f"/models/{first['name']}/aliases/champion", json={"version": version})
        assert answer.json()["aliases"] == ["champion"]
        assert client.get(f"/models/{first['name']}@champion").json()["id"] == model["id"]
    assert client.get(f"/models/{first['id']}").json()["aliases"] == []


def test_an_alias_needs_a_version_that_is_ready_and_a_name(client: httpx.Client, model: dict[str, Any]) -> None:
    path = f"/models/{model['name']}/aliases"
    assert client.put(f"{path}/champion", json={"version": 99}).status_code == 404
    assert client.put(f"{path}/7", json={"version": 1}).json()["code"] == "bad_alias"
    assert client.put(f"{path}/a b", json={"version": 1}).json()["code"] == "bad_name"
    assert client.delete(f"{path}/nobody").json()["code"] == "alias_not_found"


def test_what_an_alias_points_to_is_not_deleted(client: httpx.Client) -> None:
    model = train(client)["model"]
    alias = f"/models/{model['name']}/aliases/champion"
    client.put(alias, json={"version": 1})
    refused = client.delete(f"/models/{model['id']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "model_has_alias")
    assert client.delete(alias).status_code == 204
    assert client.delete(f"/models/{model['id']}").status_code == 204
    assert client.get(f"/models/{model['id']}").json()["status"] == "deleted"
    assert client.get("/models", params={"name": model["name"]}).json()["items"] == []


def test_the_files_of_a_deleted_version_stay_for_as_long_as_a_query_may_need_them(
    service: RunningService, client: httpx.Client
) -> None:
    model = train(client)["model"]
    folder = service.folder / "artifacts" / "models" / model["id"]
    assert client.delete(f"/models/{model['id']}").status_code == 204
    database = Database(f"sqlite:///{service.folder / 'ctp.db'}")
    with database.read() as session:
        statement = select(Removal.due_at - now()).where(Removal.owner == f"models/{model['id']}")
        left = session.scalars(statement).one()
    database.dispose()
    defaults = Settings()
    longest = defaults.reply_seconds + defaults.query_seconds
    assert longest < left <= longest + 2
    assert list(folder.rglob("manifest.json"))


def test_what_is_being_trained_is_not_deleted(client: httpx.Client) -> None:
    trained = train(client, wait=0, config={"epochs": 10_000})
    refused = client.delete(f"/models/{trained['model']['id']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "model_pending")
    client.post(f"/jobs/{trained['job']['id']}/cancel")
    assert client.delete(f"/models/{trained['model']['id']}").status_code == 204


def test_tags_can_be_replaced(client: httpx.Client) -> None:
    model = train(client, tags={"a": "1"})["model"]
    assert client.put(f"/models/{model['id']}/tags", json={"tags": {"b": "2"}}).json()["tags"] == {"b": "2"}


def test_the_best_and_the_last_checkpoint_are_listed(client: httpx.Client, model: dict[str, Any]) -> None:
    rows = client.get(f"/models/{model['id']}/checkpoints").json()["items"]
    assert 1 <= len(rows) <= 2
    progress = client.get(f"/jobs/{model['lineage']['job_id']}").json()["progress"]
    assert rows[0]["epoch"] == progress["epochs"] > 30, "mining and the choice of shares are epochs too"


def test_a_version_tells_its_kb_and_whether_its_answers_have_proofs(
    client: httpx.Client, model: dict[str, Any]
) -> None:
    assert (model["explainable"], model["lineage"]["kb_name"]) == (
        True,
        client.get(f"/kbs/{model['lineage']['kb_id']}").json()["name"],
    )


def test_where_versions_differ_the_prover_proves_each_of_its_answers(client: httpx.Client) -> None:
    """Also those found among many true ones: a region has dozens of countries."""
    rivals = [
        train(client, wait=200, kb="countries-s1", config=config)["model"]["id"]
        for config in ({"budget_seconds": 10}, {"method": "distmult", "epochs": 1})
    ]
    compared = client.get("/models/compare", params={"ids": ",".join(rivals)}, timeout=60).json()
    contest = compared["contest"]
    assert (contest["num_questions"], contest["num_available"]) == (48, 48)
    assert {row["goal"]["subject"] is None for row in contest["disagreements"]} == {True, False}
    given = [row["answers"][0] for row in contest["disagreements"]]
    right = [answer for answer in given if answer["right"]]
    assert right
    assert all(answer["proof"].startswith(f"{answer['answer']} ⇐ ") for answer in right)


def test_versions_are_compared_by_settings_metrics_and_rules(client: httpx.Client, model: dict[str, Any]) -> None:
    other = train(client, config={"epochs": 20})["model"]
    compared = client.get("/models/compare", params={"ids": f"{model['id']},{other['id']}"}).json()
    assert compared["config"] == [{"name": "epochs", "values": [30, 20]}]
    everything = {"limit": 1000, "constants": True, "priors": True, "min_support": 0}
    listed = client.get(f"/models/{model['id']}/rules", params=everything).json()["items"]
    assert compared["num_rules"][0] == len(listed)
    assert all(len(rule["confidences"]) == 2 for rule in compared["rules"])
    assert client.get("/models/compare", params={"ids": model["id"]}).json()["code"] == "bad_comparison"


def test_the_facts_behind_a_rule_come_page_by_page(client: httpx.Client, model: dict[str, Any]) -> None:
    rules = client.get(f"/models/{model['id']}/rules").json()["items"]
    path = f"/models/{model['id']}/rules/{max(rules, key=lambda rule: rule['support'])['id']}/groundings"
    everything = client.get(path, params={"limit": 1000}).json()
    assert everything["next_cursor"] is None
    pages, cursor = [], None
    while not pages or cursor:
        page = client.get(path, params={"limit": 7} | ({"cursor": cursor} if cursor else {})).json()
        pages.append(page["items"])
        cursor = page["next_cursor"]
    assert len(pages) > 1
    assert [item for page in pages for item in page] == everything["items"]


def test_a_rule_that_is_not_listed_is_told_why_it_may_be_missing(client: httpx.Client, model: dict[str, Any]) -> None:
    answer = client.get(f"/models/{model['id']}/rules/abcdef012345/groundings")
    assert (answer.status_code, answer.json()["code"]) == (404, "rule_not_found")
    assert "beyond those that are listed" in answer.json()["detail"]


def test_the_facts_behind_a_rule_make_its_body_true(client: httpx.Client, model: dict[str, Any]) -> None:
    facts = {
        (f["subject"], f["predicate"], f["object"])
        for f in client.get("/kbs/family/facts", params={"limit": 1000}).json()["items"]
    }
    rules = client.get(f"/models/{model['id']}/rules").json()["items"]
    assert rules
    for rule in rules[:20]:
        found = client.get(f"/models/{model['id']}/rules/{rule['id']}/groundings", params={"limit": 1000}).json()
        heads = set()
        for grounding in found["items"]:
            bound: dict[str, str] = {}
            for atom, fact in zip(rule["body"], grounding["facts"], strict=True):
                assert (fact["subject"], fact["predicate"], fact["object"]) in facts
                assert fact["predicate"] == atom["predicate"]
                for place in ("subject", "object"):
                    assert bound.setdefault(atom[place], fact[place]) == fact[place]
            head = (bound["X"], rule["head"]["predicate"], bound["Y"])
            assert grounding["known"] == (head in facts)
            heads.add(head)
        assert len(heads & facts) == rule["support"]


def test_an_export_answers_the_same_after_import(client: httpx.Client, model: dict[str, Any], archive: bytes) -> None:
    imported = send(client, archive)
    assert imported.status_code == 201, imported.text
    other = imported.json()
    assert other["lineage"]["imported_from"] == {"model_id": model["id"], "name": model["name"], "version": 1}
    assert other["lineage"]["kb_id"] == model["lineage"]["kb_id"]
    answers = [
        client.post("/query", json={"model": m, "goal": GOAL}).json()["answers"] for m in (model["id"], other["id"])
    ]
    assert answers[0] == answers[1]
    rules = [client.get(f"/models/{m}/rules").json()["items"] for m in (model["id"], other["id"])]
    assert rules[0] == rules[1]
    assert client.get(f"/models/{other['id']}/metrics").json()["items"] == []


def test_a_misspelt_field_of_an_import_is_refused(client: httpx.Client, archive: bytes) -> None:
    answer = client.post("/models/import", data={"nmae": "m"}, files={"file": ("m.ctp.zip", archive)})
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_field")


def test_the_same_model_exports_the_same_bytes(client: httpx.Client, model: dict[str, Any], archive: bytes) -> None:
    assert client.get(f"/models/{model['id']}/export").content == archive


def test_the_same_idempotency_key_imports_once(client: httpx.Client, archive: bytes) -> None:
    params, headers = {"name": f"m-{uuid.uuid4().hex[:8]}"}, {"Idempotency-Key": uuid.uuid4().hex}
    headers["content-type"] = "application/zip"
    first, second = (client.post("/models/import", params=params, content=archive, headers=headers) for _ in range(2))
    assert first.json() == second.json()


def rewritten(archive: bytes, **changes: bytes | None) -> bytes:
    """The archive with members changed, added, or left out (None)."""
    with zipfile.ZipFile(io.BytesIO(archive)) as old:
        members: dict[str, bytes | None] = {name: old.read(name) for name in old.namelist()}
    members |= {name.replace("__", "."): content for name, content in changes.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in members.items():
            if content is not None:
                new.writestr(name, content)
    return buffer.getvalue()


def with_tensors(tensors: bytes, manifest: dict[str, Any], archive: bytes) -> bytes:
    """Whole by its checksums."""
    rest = {key: value for key, value in manifest.items() if key not in ("format", "tensors_sha256")}
    return rewritten(archive, tensors__safetensors=tensors, manifest__json=encode_manifest(rest, tensors))


def weights(tensors: bytes) -> list[str]:
    loaded = safetensors.numpy.load(tensors)
    return [name for name, tensor in loaded.items() if tensor.dtype.kind == "f" and tensor.size]


def contradicting(tensors: bytes, manifest: dict[str, Any], archive: bytes, changes: dict[str, Any]) -> bytes:
    """With tensors replaced, filled with a number, or left out (None)."""
    loaded = safetensors.numpy.load(tensors)
    for name, value in changes.items():
        loaded[name] = np.full_like(loaded[name], value) if isinstance(value, float) else value
    kept = {name: tensor for name, tensor in loaded.items() if tensor is not None}
    return with_tensors(safetensors.numpy.save(kept), manifest, archive)


def test_hostile_archives_are_refused(client: httpx.Client, archive: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(archive)) as members:
        tensors, manifest = members.read("tensors.safetensors"), json.loads(members.read("manifest.json"))
        card = json.loads(members.read(CARD))
    flipped = bytes([*tensors[:-1], tensors[-1] ^ 1])
    twice = io.BytesIO(archive)
    with zipfile.ZipFile(twice, "a") as appended, pytest.warns(UserWarning, match="Duplicate"):
        appended.writestr("manifest.json", b"{}")
    hostile = {
        "no zip": b"PK nonsense",
        "empty": b"",
        "truncated": archive[: len(archive) // 2],
        "path": rewritten(archive, **{"../../etc/passwd": b"x"}),
        "missing member": rewritten(archive, manifest__json=None),
        "member twice": twice.getvalue(),
        "flipped byte": rewritten(archive, tensors__safetensors=flipped),
        "deep JSON": rewritten(archive, manifest__json=b"[" * 100_000),
        "card with infinity": rewritten(archive, model__json=json.dumps(card | {"metrics": {"mrr": 1e999}}).encode()),
        "unknown method": rewritten(
            archive, manifest__json=json.dumps(manifest | {"config": {"method": "shell"}}).encode()
        ),
        "another kind": rewritten(archive, manifest__json=json.dumps(manifest | {"kind": "graphs"}).encode()),
        "no symbols": rewritten(archive, manifest__json=json.dumps(manifest | {"entities": 3}).encode()),
        "no facts": contradicting(tensors, manifest, archive, {"facts.train": None}),
        "facts about nobody": contradicting(tensors, manifest, archive, {"facts.train": np.array([[10**6, 0, 0]])}),
        "no numbers": contradicting(tensors, manifest, archive, dict.fromkeys(weights(tensors), np.nan)),
        "weights that overflow": contradicting(tensors, manifest, archive, dict.fromkeys(weights(tensors), 3e38)),
        "an empty KB": contradicting(tensors, manifest, archive, {"facts.train": np.zeros((0, 3), dtype=np.int64)}),
        "half a character": rewritten(
            archive, manifest__json=json.dumps(manifest | {"entities": ["\ud800", *manifest["entities"][1:]]}).encode()
        ),
        "no tensors at all": with_tensors(b"nonsense" * 100, manifest, archive),
        "too few symbols": rewritten(archive, manifest__json=json.dumps(manifest | {"predicates": []}).encode()),
    }
    for what, content in hostile.items():
        answer = send(client, content)
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_archive"), (what, answer.text)


def test_an_archive_that_unpacks_to_too_much_is_refused_unread(client: httpx.Client, archive: bytes) -> None:
    """A gigabyte and a half of zeros in a megabyte and a half."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as bomb:
        for name in ("manifest.json", CARD):
            bomb.writestr(name, b"{}")
        with bomb.open("tensors.safetensors", "w") as member:
            zeros = bytes(1 << 24)
            for _ in range(96):
                member.write(zeros)
    answer = send(client, buffer.getvalue())
    assert (answer.status_code, answer.json()["code"]) == (413, "model_too_large")


def test_a_version_that_is_not_there_names_those_that_are(client: httpx.Client) -> None:
    first = train(client)["model"]
    name = train(client, name=first["name"])["model"]["name"]
    client.put(f"/models/{name}/aliases/champion", json={"version": 1}).raise_for_status()
    for wrong in ("9", "best"):
        answer = client.get(f"/models/{name}@{wrong}")
        assert (answer.status_code, answer.json()["code"]) == (404, "model_not_found")
        assert answer.json()["versions"] == [f"{name}@2", f"{name}@1", f"{name}@champion"]
        assert f"there are {name}@2, {name}@1, {name}@champion" in answer.json()["detail"]


def test_a_kb_that_models_stand_on_names_them(client: httpx.Client) -> None:
    kb = f"kb-{uuid.uuid4().hex[:8]}"
    client.post("/kbs", json={"name": kb, "facts": [["a", "p", "b"], ["b", "p", "c"]]}).raise_for_status()
    config = {"method": "distmult", "search": [], "epochs": 1}
    names = [train(client, kb=kb, name=f"{kb}-{number}", config=config)["model"]["name"] for number in (1, 2)]
    answer = client.delete(f"/kbs/{kb}")
    assert (answer.status_code, answer.json()["code"]) == (409, "kb_in_use")
    assert answer.json()["models"] == [f"{names[1]}@1", f"{names[0]}@1"]
    assert f"{names[1]}@1 and {names[0]}@1 stand on '{kb}'" in answer.json()["detail"]
