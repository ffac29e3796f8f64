"""What a tenant can do to the others within its rights: the loads of `ctp bench fair`.

Each load is a function that prepares what it needs, as models and bodies, and returns the calls to be repeated.
"""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from service.benchmarks.callers import Call, Group
from service.models.archive import CARD
from service.settings import MAX_RULES, NAME_LIMIT

CTP = {"method": "ctp", "search": [], "epochs": 1}
# About half a hundred megabytes of vectors; what is learnt does not matter.
LARGE = {"method": "complex", "search": [], "rank": 500, "epochs": 1}
LARGE_ENTITIES = 12_000
ENDLESS = {"method": "proofs", "search": [], "epochs": 10_000, "mined": False, "constants": False, "members": 1}
HUB_SPOKES, SLOW_SPOKES = 5000, 900
QUERY_FACTS, TINY_FACTS = 10_000, 1_250_000
TINY = '["a","p","b"]'
STREAMS, MOST_SEEDS = 500, 32
UPLOADED_FACTS, UPLOADED_ENTITIES = 200_000, 20_000
LONG_ENTITIES, MOST_ANSWERS, MOST_GOALS = 2000, 1000, 20
SMALL = {"method": "complex", "search": [], "rank": 8, "epochs": 1}


@dataclass
class Tenant:
    """A tenant with its key, and the folder for what it sends."""

    client: httpx.Client
    key: str
    folder: Path

    def train(self, kb: str, name: str, config: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Trains a model, unless there is one of this name; returns it."""
        known = self.client.get(f"/models/{name}")
        if known.status_code == httpx.codes.OK:
            return dict(known.json())
        body = {"kb": kb, "name": name} | ({"config": config} if config else {})
        trained = self.client.post("/train", params={"wait": 300}, json=body).raise_for_status().json()
        if trained["job"]["status"] != "succeeded":
            raise RuntimeError(f"the training of {name} did not succeed: {trained['job']}")
        return dict(trained["model"])

    def start(self, kb: str, name: str, config: Mapping[str, Any]) -> str:
        """Starts a training and returns the id of its job."""
        answer = self.client.post("/train", json={"kb": kb, "name": name, "config": config}).raise_for_status()
        return str(answer.json()["job"]["id"])

    def post(self, path: str, body: bytes, media_type: str = "application/json") -> Call:
        file = self.folder / f"body-{len(list(self.folder.glob('body-*')))}"
        file.write_bytes(body)
        return Call("POST", path, self.key, str(file), media_type)

    def query(self, model: str, goal: Mapping[str, str], **more: Any) -> Call:
        return self.post("/query", json.dumps({"model": model, "goal": goal, **more}).encode())

    def get(self, path: str) -> Call:
        return Call("GET", path, self.key)


Load = Callable[[Tenant], Group]


def _star(tenant: Tenant, model: str, spokes: int) -> Call:
    """A question about the centre of a star: a prover that compares all pairs takes long for it."""
    tenant.train("family", model, CTP)
    facts = [["hub", "parent", f"spoke {number}"] for number in range(spokes)]
    return tenant.query(model, {"subject": "hub", "predicate": "parent"}, facts=facts)


def hub(tenant: Tenant) -> Group:
    """Facts with a hub, sent to `ctp` on facts."""
    return Group("hub", (_star(tenant, "star-1", HUB_SPOKES),), callers=4)


def slow(tenant: Tenant) -> Group:
    """Queries of seconds on one model."""
    return Group("slow", (_star(tenant, "star-1", SLOW_SPOKES),), callers=2)


def slow_on_two(tenant: Tenant) -> Group:
    """Queries of seconds on two models."""
    return Group("slow_on_two", tuple(_star(tenant, name, SLOW_SPOKES) for name in ("star-1", "star-2")), callers=8)


def imports(tenant: Tenant) -> Group:
    """Imports of as many rules as a model may have."""
    call = tenant.post("/models/import?name=imported", _many_rules(tenant), "application/zip")
    return Group("imports", (call,), callers=2)


def _many_rules(tenant: Tenant) -> bytes:
    """The archive of a model with as many rules as a model may have."""
    tenant.train("family", "imported", {"epochs": 1})
    exported = tenant.client.get("/models/imported/export").raise_for_status().content
    return with_rules(exported, MAX_RULES)


def rule_exports(tenant: Tenant) -> Group:
    """Downloads and lists of a model with as many rules as a model may have."""
    headers = {"Content-Type": "application/zip"}
    archive = _many_rules(tenant)
    tenant.client.post("/models/import?name=rules", content=archive, headers=headers).raise_for_status()
    calls = tuple(tenant.get(f"/models/rules/{what}") for what in ("export", "rules?limit=1000"))
    return Group("rule_exports", calls, callers=8)


def groundings(tenant: Tenant) -> Group:
    """The facts behind the rules of a model of a dense KB."""
    model = tenant.train("umls", "compared-1", {"epochs": 1})
    rules = tenant.client.get(f"/models/{model['id']}/rules", params={"limit": 50}).raise_for_status().json()["items"]
    calls = (tenant.get(f"/models/{model['id']}/rules/{rule['id']}/groundings?limit=100") for rule in rules)
    return Group("groundings", tuple(calls), callers=16)


def with_rules(archive: bytes, num_rules: int) -> bytes:
    """Returns the archive of a model with other rules."""
    places = {"subject": "X", "object": "Y"}
    changed = io.BytesIO()
    rules = [
        {"head": places | {"predicate": f"p{i}"}, "body": [places | {"predicate": "q"}], "template": "1"}
        for i in range(num_rules)
    ]
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name == CARD:
                card = json.loads(content) | {"rules": [{**rule, "confidence": 0.5} for rule in rules]}
                content = json.dumps(card).encode()
            new.writestr(name, content)
    return changed.getvalue()


def compare(tenant: Tenant) -> Group:
    """Comparisons of two models by a thousand questions."""
    for number in (1, 2):
        tenant.train("umls", f"compared-{number}", {"epochs": number})
    call = tenant.get("/models/compare?ids=compared-1,compared-2&questions=1000")
    return Group("compare", (call,), callers=6)


def large_queries(tenant: Tenant) -> Group:
    """Queries of 10 MB."""
    tenant.train("family", "star-1", CTP)
    name = "x" * (NAME_LIMIT - 8)
    facts = [[f"{name}{number}", "parent", f"{name}{number + 1}"] for number in range(QUERY_FACTS)]
    call = tenant.query("star-1", {"subject": "rick", "predicate": "parent"}, facts=facts)
    return Group("large_queries", (call,), callers=72)


def tiny_facts(tenant: Tenant) -> Group:
    """Bodies of 16 MB that consist of tiny facts."""
    facts = ",".join([TINY] * TINY_FACTS)
    body = f'{{"model":"m","goal":{{"subject":"a","predicate":"p"}},"facts":[{facts}]}}'.encode()
    return Group("tiny_facts", (tenant.post("/query", body),), callers=4)


def uploads(tenant: Tenant) -> Group:
    """Uploads of KBs, each of which is deleted again."""
    lines = [
        f"entity {number % UPLOADED_ENTITIES}\tp{number % 7}\tentity {number * 31 % UPLOADED_ENTITIES + number // 1000}"
        for number in range(UPLOADED_FACTS)
    ]
    calls = []
    for name in ("upload-1", "upload-2"):
        calls += [_upload(tenant, name, "\n".join(lines)), Call("DELETE", f"/kbs/{name}", tenant.key)]
    return Group("uploads", tuple(calls), callers=4)


def _upload(tenant: Tenant, name: str, lines: str) -> Call:
    part = "--x\r\nContent-Disposition: form-data; name="
    body = f'{part}"name"\r\n\r\n{name}\r\n{part}"file"; filename="facts.tsv"\r\n\r\n{lines}\r\n--x--\r\n'
    return tenant.post("/kbs", body.encode(), "multipart/form-data; boundary=x")


def _chain(tenant: Tenant, name: str, entity: str, num_entities: int) -> str:
    """Makes a KB, unless there is one of this name."""
    if tenant.client.get(f"/kbs/{name}").status_code != httpx.codes.OK:
        chain = [[f"{entity}{number}", "next", f"{entity}{number + 1}"] for number in range(num_entities)]
        tenant.client.post("/kbs", json={"name": name, "facts": chain}).raise_for_status()
    return name


def exports(tenant: Tenant) -> Group:
    """Downloads of a large model, eight at once."""
    tenant.train(_chain(tenant, "chain", "e", LARGE_ENTITIES), "large", LARGE)
    return Group("exports", (tenant.get("/models/large/export"),), callers=8)


def misspelt(tenant: Tenant) -> Group:
    """Names that do not exist, for which the nearest of many are looked for."""
    tenant.train(_chain(tenant, "chain", "e", LARGE_ENTITIES), "spelt", SMALL)
    calls = (
        tenant.query("spelt", {"subject": "e123456", "predicate": "next"}),
        tenant.query("spelled", {"subject": "e1", "predicate": "next"}),
        tenant.query("spelt", {"subject": "e1", "predicate": "nxt"}),
        tenant.get("/kbs/chain/facts?subject=e123456"),
        tenant.get("/kbs/chains"),
    )
    return Group("misspelt", calls, callers=16)


def huge_answers(tenant: Tenant) -> Group:
    """As many answers with long names as a query may ask for."""
    kb = _chain(tenant, "long", "x" * (NAME_LIMIT - 8), LONG_ENTITIES)
    tenant.train(kb, "long", SMALL)
    first = tenant.client.get(f"/kbs/{kb}/facts", params={"limit": MOST_GOALS}).raise_for_status().json()["items"]
    goals = [{"subject": fact["subject"], "predicate": "next"} for fact in first]
    body = {"model": "long", "goals": goals, "top_k": MOST_ANSWERS, "proofs": 0}
    return Group("huge_answers", (tenant.post("/query", json.dumps(body).encode()),), callers=16)


def orders(tenant: Tenant) -> Group:
    """Trainings of many seeds and evaluations, ordered again and again, and lists of them."""
    tenant.train("umls", "evaluated", SMALL)
    seeds = list(range(MOST_SEEDS))
    bodies = {
        "/evaluations": {"model": "evaluated", "limit": 1},
        "/train": {"kb": "umls", "name": "ordered", "config": ENDLESS, "seeds": seeds},
    }
    calls = [tenant.post(path, json.dumps(body).encode()) for path, body in bodies.items()]
    return Group("orders", (*calls, tenant.get("/evaluations?limit=1000"), tenant.get("/jobs?limit=1000")), callers=32)


def streams(tenant: Tenant) -> Group:
    """Streams of the events of a job, hundreds at once, while it is trained."""
    job = tenant.start("nations", "streamed", ENDLESS)
    return Group("streams", (tenant.get(f"/jobs/{job}/events"),), callers=STREAMS)


LOADS: dict[str, Load] = {
    load.__name__: load
    for load in (
        hub,
        imports,
        slow,
        slow_on_two,
        compare,
        large_queries,
        tiny_facts,
        exports,
        uploads,
        rule_exports,
        groundings,
        misspelt,
        huge_answers,
        orders,
        streams,
    )
}
