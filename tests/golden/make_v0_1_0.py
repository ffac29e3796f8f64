"""Makes tests/golden/v0.1.0: archives and a database as version 0.1.0 wrote them, and what it answered.

Runs on the commit that README.md names, from the top of the repository: `python -m tests.golden.make_v0_1_0`.
Everything is made by a started service through its API. On a later commit it would make files of that later commit,
which is why these are kept.
"""

import gzip
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
from ctp_core.datasets.family_graphs import family_graphs
from ctp_core.datasets.graphs_jsonl import write_graphs_jsonl

from tests.running import running_service

FOLDER = Path(__file__).parent / "v0.1.0"
KINDS = {"family": "facts", "chains": "graphs"}
SELECTS = ("linear", "attentive", "memory", "ntp", "gntp")
KEPT_ANSWERS = 6
DIGITS = 6
Json = dict[str, Any]

PROOFS = {"method": "proofs", "epochs": 60, "templates": {"1": 2, "2": 3}}
RULES = {"method": "rules", "max_length": 3, "sample": 40, "rules": 6, "steps": 20}
EMBEDDING = {"epochs": 10, "rank": 8}
CTP = {"method": "ctp", "dim": 8, "epochs": 4, "memory": 12, "top_k": 1}
TEMPLATES = ["0", "1", "1R", "2"]
# Long enough for scores that a tolerance of 1e-5 tells apart.
GRAPHS_CTP = {**CTP, "epochs": 100, "steps": 200, "optimiser": "adam", "learning_rate": 0.05}
NETWORK = {"epochs": 2, "dim": 8, "names": 8}
FIXED = ["0.9::grandfather(X,Y) :- mother(X,Z), father(Z,Y).", "father(X,Y) :- son(Y,X)."]
# Model -> its KB and what overrides the preset; small, so that all archives together are.
TRAININGS: dict[str, tuple[str, Json]] = {
    "facts-proofs": ("family", PROOFS),
    "facts-proofs-every-template": (
        "family",
        {
            **PROOFS,
            "templates": {"1": 1, "1X": 1, "1Y": 1, "2": 1, "3": 1, "4": 1, "5": 1, "6": 1},
            **{"members": 2, "loss": "softmax", "saturation": 0.5, "counting": "share", "hidden_facts": 0.2},
        },
    ),
    "facts-rules": ("family", {**RULES, "constant_atoms": 2}),
    "facts-rules-without-constants": ("family", {**RULES, "constants": False}),
    "facts-hybrid-proofs": (
        "family",
        {"method": "hybrid", "proofs": PROOFS, "embedding": {"method": "complex", **EMBEDDING}},
    ),
    "facts-hybrid-rules": (
        "family",
        {"method": "hybrid", "proofs": RULES, "embedding": {"method": "distmult", **EMBEDDING}, "weight": 0.5},
    ),
    "facts-complex": ("family", {"method": "complex", **EMBEDDING, "reciprocal": True}),
    "facts-distmult": ("family", {"method": "distmult", **EMBEDDING, "reciprocal": False}),
    "facts-neurallp": ("family", {"method": "neurallp", "epochs": 4, "dim": 8, "length": 2}),
    "facts-minerva": ("family", {"method": "minerva", "epochs": 4, "dim": 8}),
    **{f"facts-ctp-{name}": ("family", {**CTP, "select": name, "templates": TEMPLATES}) for name in SELECTS},
    "facts-ctp-nearest": (
        "family",
        {**CTP, "templates": TEMPLATES, "search": "nearest", "nearest": 4, "unification": "per_symbol"},
    ),
    "facts-ctp-summed": (
        "family",
        {**CTP, "templates": ["0", "1", "1R"], "loss": "summed", "hidden_facts": 0.3, "ranked": "hidden"},
    ),
    **{
        f"graphs-ctp-{prover}-{name}": (
            "chains",
            {**GRAPHS_CTP, "select": name, "prover": prover, "templates": ["2", "2", "2", "1R"], "validation": 0.1},
        )
        for prover in ("tabled", "exact")
        for name in SELECTS
    },
    "graphs-ctp-fixed-rules": (
        "chains",
        {**GRAPHS_CTP, "prover": "exact", "templates": ["2"], "rules": FIXED, "head": True, "gate": True},
    ),
    **{f"graphs-{name}": ("chains", {"method": name, **NETWORK, "hidden": 8}) for name in ("lstm", "gru", "rnn")},
    "graphs-lstm-apart": ("chains", {"method": "lstm", **NETWORK, "hidden": 8, "encoding": "apart"}),
    "graphs-cnn": ("chains", {"method": "cnn", **NETWORK, "filters": 2}),
    "graphs-cnnh": ("chains", {"method": "cnnh", **NETWORK, "highway": 1}),
    "graphs-mha": ("chains", {"method": "mha", **NETWORK, "heads": 2, "hidden": 8}),
    "graphs-gat": ("chains", {"method": "gat", **NETWORK, "heads": 2, "edge_dim": 8}),
    "graphs-gcn": ("chains", {"method": "gcn", **NETWORK, "edge_dim": 8}),
}


def questions(kb: str) -> Iterator[Json]:
    """Bodies of `POST /query` without the model. All answers are asked for, so that no tie decides which are shown."""
    asked = {"top_k": 1000, "proofs": 0}
    if kb == "chains":
        for graph in family_graphs(3, lengths=(3,), seed=2):
            goal = {"subject": graph.subject, "predicate": None, "object": graph.object}
            yield {"goal": goal, "facts": [list(fact) for fact in graph.facts], **asked}
        yield {"goal": {**goal, "predicate": graph.label}, "facts": [list(fact) for fact in graph.facts], **asked}
        return
    yield {"goal": {"subject": "rick", "predicate": "grandparent", "object": None}, **asked}
    yield {"goal": {"subject": None, "predicate": "aunt", "object": "lena"}, **asked}
    yield {"goal": {"subject": "clara", "predicate": None, "object": "karl"}, **asked}
    yield {"goal": {"subject": "ada", "predicate": "sister", "object": "karl"}, **asked}
    # A person whom no model has seen in training.
    new = [["zoe", "parent", "rick"]]
    yield {"goal": {"subject": "zoe", "predicate": "grandparent", "object": None}, "facts": new, **asked}


def answers(client: httpx.Client, model: str, question: Json) -> Json:
    """The best answers with their scores, the score of the best proof of the first, or the code of the refusal."""
    reply = client.post("/query", json={"model": model, **question})
    body = reply.json()
    if reply.status_code != 200:
        return {"status": reply.status_code, "code": body["code"]}
    found = [
        [[answer["subject"], answer["predicate"], answer["object"]], round(answer["score"], DIGITS), answer["known"]]
        for answer in body["answers"]
    ]
    (explained,) = client.post("/query", json={"model": model, **question, "top_k": 1, "proofs": 1}).json()["answers"]
    proofs = [round(proof["score"], DIGITS) for proof in explained["proofs"]]
    return {"status": 200, "number": len(found), "best": found[:KEPT_ANSWERS], "proofs": proofs}


def items(client: httpx.Client, path: str) -> list[Json]:
    """All of them: the largest pages, one after another."""
    found: list[Json] = []
    parameters: Json = {"limit": 1000}
    while True:
        page = client.get(path, params=parameters).raise_for_status().json()
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        parameters["cursor"] = page["next_cursor"]


def rules(client: httpx.Client, model: str) -> list[Json]:
    return [
        {
            "text": rule["text"],
            "head": rule["head"]["predicate"],
            "body": [atom["predicate"] for atom in rule["body"]],
            "confidence": round(rule["confidence"], DIGITS),
        }
        for rule in items(client, f"/models/{model}/rules")
    ]


def checkpoints(client: httpx.Client, model: str) -> list[Json]:
    """They are few, and come without pages."""
    found: list[Json] = client.get(f"/models/{model}/checkpoints").raise_for_status().json()["items"]
    return found


def upload_graphs(client: httpx.Client) -> None:
    graphs = family_graphs(60, lengths=(2, 3), seed=1)
    content = "".join(write_graphs_jsonl(graphs)).encode()
    form = {"name": "chains", "kind": "graphs", "format": "jsonl"}
    reply = client.post("/kbs", data=form, files={"file": ("chains.jsonl", content)})
    assert reply.status_code == 201, reply.text


def train(client: httpx.Client, name: str, kb: str, config: Json, **rest: Any) -> Json:
    body = {"kb": kb, "name": name, "config": config, **rest}
    reply = client.post("/train", params={"wait": 100}, json=body)
    assert reply.status_code == 202, f"{name}: {reply.text}"
    job: Json = reply.json()["job"]
    assert job["status"] == "succeeded", f"{name}: {job['error']}"
    return job


def make_archives(data: Path) -> None:
    recorded = {}
    with running_service(data) as service, service.client() as client:
        upload_graphs(client)
        for name, (kb, config) in TRAININGS.items():
            train(client, name, kb, config)
            (FOLDER / f"{name}.ctp.zip").write_bytes(client.get(f"/models/{name}/export").content)
            recorded[name] = {
                "kind": KINDS[kb],
                "method": config["method"],
                "questions": [{"question": asked, **answers(client, name, asked)} for asked in questions(kb)],
                "rules": rules(client, name),
            }
            print(name, (FOLDER / f"{name}.ctp.zip").stat().st_size, len(recorded[name]["rules"]))
    write_json("models.json", recorded)


# Still training when the service is stopped: whoever starts it again finishes the job from its checkpoint.
INTERRUPTED = {**CTP, "templates": TEMPLATES, "epochs": 150, "eval_every": 50}
INTERRUPTED_AT = 100


def make_database(data: Path) -> None:
    with running_service(data, checkpoint_seconds="1") as service, service.client() as client:
        upload_graphs(client)
        facts = [["a", "likes", "b"], ["b", "likes", "c"], ["a", "knows", "c"]]
        assert client.post("/kbs", json={"name": "friends", "facts": facts}).status_code == 201
        train(client, "family", "family", PROOFS, tags={"purpose": "test", "stage": "first"})
        train(client, "family", "family", RULES, seeds=[1, 2], tags={"stage": "second"})
        train(client, "family", "family", {"method": "complex", **EMBEDDING})
        client.put("/models/family/aliases/champion", json={"version": 2}).raise_for_status()
        client.put("/models/family/aliases/first", json={"version": 1}).raise_for_status()
        client.delete("/models/family@3").raise_for_status()
        train(client, "chains", "chains", TRAININGS["graphs-ctp-tabled-attentive"][1])
        archive = client.get("/models/family@1/export").content
        headers = {"Content-Type": "application/zip", "Idempotency-Key": "import-of-family"}
        imported = client.post("/models/import", params={"name": "imported"}, content=archive, headers=headers)
        assert imported.status_code == 201, imported.text
        fail(client)
        cancel(client)
        keys = make_keys(data)
        client.headers["Authorization"] = f"Bearer {keys['write']}"
        recorded = {"keys": keys, **record_database(client), "interrupted": interrupt(client)}
    assert status_of(data, recorded["interrupted"]) == "queued"
    write_json("database.json", recorded)
    (FOLDER / "ctp.db.gz").write_bytes(gzip.compress((data / "ctp.db").read_bytes(), 9, mtime=0))
    pack_artifacts(data / "artifacts")


def fail(client: httpx.Client) -> None:
    """Too many chains of rules, which only the worker that begins to train finds out."""
    config = {**CTP, "loss": "sampled", "ranked": "all", "depth": 3, "templates": ["0", "2", "2", "2"]}
    reply = client.post("/train", params={"wait": 60}, json={"kb": "kinship", "name": "too-large", "config": config})
    assert reply.status_code == 202, reply.text
    assert reply.json()["job"]["status"] == "failed", reply.text


def cancel(client: httpx.Client) -> None:
    config = {**INTERRUPTED, "epochs": 10_000}
    job = client.post("/train", json={"kb": "family", "name": "unwanted", "config": config}).json()["job"]["id"]
    wait_for_epoch(client, job, 5)
    client.post(f"/jobs/{job}/cancel").raise_for_status()


def interrupt(client: httpx.Client) -> str:
    job = client.post("/train", json={"kb": "family", "name": "interrupted", "config": INTERRUPTED}).json()["job"]["id"]
    wait_for_epoch(client, job, INTERRUPTED_AT)
    return str(job)


def status_of(data: Path, job: str) -> str:
    """The status of a job, read from the database of a stopped service."""
    with closing(sqlite3.connect(data / "ctp.db")) as database:
        (status,) = database.execute("SELECT status FROM jobs WHERE id = ?", (job,)).fetchone()
    return str(status)


def wait_for_epoch(client: httpx.Client, job: str, epoch: int) -> None:
    while True:
        found = client.get(f"/jobs/{job}").json()
        assert found["status"] in ("queued", "running"), found
        if found["progress"].get("epoch", 0) >= epoch:
            return
        time.sleep(0.2)


def make_keys(data: Path) -> dict[str, str]:
    """Role -> key. They open nothing but the copies of this database that tests make."""

    def ctp(*arguments: str) -> str:
        environment = {**os.environ, "CTP_DATA_DIR": str(data)}
        command = [sys.executable, "-m", "service.cli", "keys", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    keys = {role: ctp("create", "--role", role, "--label", f"golden {role}") for role in ("read", "write", "admin")}
    keys["revoked"] = ctp("create", "--role", "write", "--label", "golden revoked")
    ctp("revoke", keys["revoked"])
    time.sleep(3)  # until the service knows that keys are asked for, and which of them is revoked
    return keys


def record_database(client: httpx.Client) -> Json:
    asked, label = next(questions("family")), next(questions("chains"))
    models = items(client, "/models")
    ready = [model for model in models if model["status"] == "ready"]
    return {
        "kbs": [client.get(f"/kbs/{kb['id']}").json() for kb in items(client, "/kbs")],
        "facts": {kb: items(client, f"/kbs/{kb}/facts") for kb in ("family", "chains", "friends")},
        "jobs": items(client, "/jobs"),
        "models": models,
        "metrics": {model["id"]: items(client, f"/models/{model['id']}/metrics") for model in ready},
        "checkpoints": {model["id"]: checkpoints(client, model["id"]) for model in ready},
        "rules": {model["id"]: rules(client, model["id"]) for model in ready},
        "questions": {
            "family@champion": {"question": asked, **answers(client, "family@champion", asked)},
            "family@first": {"question": asked, **answers(client, "family@first", asked)},
            "imported": {"question": asked, **answers(client, "imported", asked)},
            "chains": {"question": label, **answers(client, "chains", label)},
        },
    }


def pack_artifacts(folder: Path) -> None:
    """Without the dates and the owner of the files."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime, member.uid, member.gid, member.uname, member.gname = 0, 0, 0, "", ""
        return member

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, "artifacts", filter=plain)
    (FOLDER / "artifacts.tar.gz").write_bytes(gzip.compress(buffer.getvalue(), 9, mtime=0))


def write_json(name: str, recorded: Json) -> None:
    content = json.dumps(recorded, ensure_ascii=False, indent=1).encode()
    (FOLDER / f"{name}.gz").write_bytes(gzip.compress(content, 9, mtime=0))


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for make in (make_archives, make_database):
        with tempfile.TemporaryDirectory() as data:
            make(Path(data))


if __name__ == "__main__":
    main()
