"""Thousands of calls that mean harm, drawn by dice: none is answered with a 500, and no process is lost to them.

HOSTILE_CALLS says how many, HOSTILE_SEED which ones.
"""

import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from service.db.engine import Database
from service.keys import service as keys
from tests.hostile.archives import STORED, Opened, hostile_archive
from tests.hostile.orders import hostile_order
from tests.hostile.queries import Names, hostile_query
from tests.hostile.values import odd_number, odd_text
from tests.running import RunningService, running_service

pytestmark = pytest.mark.slow
FEW, MANY = 60, 10_000
SEED = int(os.environ.get("HOSTILE_SEED", "0"))
CALLERS = 3
ZIP, JSON = {"content-type": "application/zip"}, {"content-type": "application/json"}
# A part that is busy or was restarted says so; nothing else of the service's own may go wrong.
ALLOWED = (503, 507)
PATHS = [
    ("GET", "/models/{}"),
    ("GET", "/models/{}/rules?predicate={}&min_support={}&limit={}&cursor={}"),
    ("GET", "/models/{}/rules/{}/groundings?limit={}&cursor={}"),
    ("GET", "/models/{}/metrics?seed={}"),
    ("GET", "/models/{}/checkpoints"),
    ("GET", "/models/{}/export"),
    ("GET", "/models/compare?ids={},{}&questions={}"),
    ("GET", "/kbs/{}/facts?subject={}&predicate={}&limit={}&cursor={}"),
    ("GET", "/kbs/{}/neighbourhood?entity={}&limit={}"),
    ("GET", "/kbs/{}/entities?prefix={}&cursor={}"),
    ("GET", "/kbs/{}/export?format={}&split={}"),
    ("GET", "/jobs?status={}&cursor={}"),
    ("GET", "/jobs/{}"),
    ("GET", "/jobs/{}/events"),
    ("GET", "/presets?kb={}&method={}"),
    ("GET", "/evaluations?model={}&status={}&limit={}&cursor={}"),
    ("GET", "/evaluations/{}?wait={}"),
    ("DELETE", "/evaluations/{}"),
    ("GET", "/predictions?model={}&status={}&limit={}&cursor={}"),
    ("GET", "/predictions/{}?wait={}"),
    ("GET", "/predictions/{}/download"),
    ("DELETE", "/predictions/{}"),
    ("POST", "/models/{}/warm"),
    ("PUT", "/models/{}/aliases/{}"),
    ("PUT", "/models/{}/tags"),
    ("DELETE", "/models/{}/aliases/{}"),
    ("POST", "/jobs/{}/cancel"),
]


@dataclass
class Record:
    """All answers, and those that there must not be."""

    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def note(self, answer: httpx.Response) -> None:
        self.statuses[answer.status_code] += 1
        if answer.status_code >= 500 and answer.status_code not in ALLOWED:
            answer.read()
            self.faults.append(f"{answer.request.method} {answer.url}: {answer.status_code} {answer.text[:500]}")


@dataclass
class Caller:
    client: httpx.Client
    dice: random.Random
    models: list[Names]

    def call(self) -> None:
        self.dice.choices([self.ask, self.send_archive, self.order, self.knock], [12, 2, 2, 3])[0]()

    def ask(self, names: Names | None = None) -> None:
        content = hostile_query(self.dice, names or self.dice.choice(self.models))
        self.client.post("/query", content=content, headers=JSON)

    def send_archive(self) -> None:
        answer = self.client.post("/models/import?name=hostile", content=hostile_archive(self.dice), headers=ZIP)
        if answer.status_code != 201:
            return
        model = answer.json()["id"]
        known = self.dice.choice(self.models)
        for _ in range(3):
            self.ask(Names(model, known.entities, known.predicates))
        self.client.get(
            f"/models/{model}/rules", headers={"accept": self.dice.choice(["text/csv", "text/plain", "*/*"])}
        )
        self.client.get(f"/models/{model}/export")
        self.client.delete(f"/models/{model}")

    def order(self) -> None:
        """Nobody waits for the work: it is cancelled, unless it has begun and ended meanwhile."""
        path, content = hostile_order(self.dice, self.dice.choice(self.models).model)
        answer = self.client.post(path, content=content, headers=JSON)
        if answer.status_code == 202:
            job = answer.json()["job"]["id"] if path == "/train" else answer.json()["id"]
            self.client.post(f"/jobs/{job}/cancel")
        elif answer.is_success:
            self.client.delete(f"/kbs/{answer.json()['id']}")

    def knock(self) -> None:
        method, path = self.dice.choice(PATHS)
        while "{}" in path:
            path = path.replace("{}", self.word(), 1)
        self.client.request(method, path, content=b'{"version": 1}' if method == "PUT" else None, headers=JSON)

    def word(self) -> str:
        known = self.dice.choice(self.models)
        odd = self.dice.choice([odd_text(self.dice), str(odd_number(self.dice)), self.dice.choice(known.entities)])
        word = self.dice.choice([odd, odd, known.model, "family", "hostile@1"])
        return quote(word.encode("utf-8", "surrogatepass"), safe="")


def imported(client: httpx.Client, path: Path) -> Names:
    answer = client.post(f"/models/import?name={path.name.split('.')[0]}", content=path.read_bytes(), headers=ZIP)
    assert answer.status_code == 201, answer.text
    manifest = Opened.read(path).manifest
    return Names(answer.json()["id"], manifest.get("entities", ["a", "b", "c", "d"]), manifest["predicates"])


def attack(service: RunningService, archives: list[Path], number: int) -> Record:
    record = Record()

    def calls(caller: Caller) -> None:
        while sum(record.statuses.values()) < number:
            caller.call()

    def enter(seed: int, models: list[Names]) -> None:
        with service.client() as client:
            client.event_hooks = {"response": [record.note]}
            calls(Caller(client, random.Random(f"{SEED} {seed}"), models))

    with service.client() as client:
        models = [imported(client, path) for path in archives]
        threads = [threading.Thread(target=enter, args=(seed, models)) for seed in range(CALLERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for names in models:
            client.delete(f"/models/{names.model}")
    print(f"{number} hostile calls, seed {SEED}: {dict(sorted(record.statuses.items()))}")
    return record


def lost_processes(service: RunningService) -> list[str]:
    """Lines of the log about children that have crashed; those that were killed for their time are not among them."""
    log = (service.folder / "logs" / "query.log").read_text()
    return [line for line in log.splitlines() if '"query_child_lost"' in line and '"code": -9' not in line]


def named(*names: str) -> list[Path]:
    return [path for path in STORED if path.name.split(".")[0] in names]


def test_a_few_hostile_calls_are_answered_without_a_500(service: RunningService) -> None:
    few = named("facts-rules", "facts-ctp-linear", "graphs-ctp-tabled-linear")
    assert attack(service, few, FEW).faults == []
    assert lost_processes(service) == []


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_hostile_calls_are_answered_without_a_500(tmp_path: Path) -> None:
    with running_service(tmp_path, query_seconds="2", query_processes="2") as service:
        record = attack(service, STORED, int(os.environ.get("HOSTILE_CALLS", MANY)))
        assert record.faults == []
        assert lost_processes(service) == []
        assert "unexpected_error" not in (tmp_path / "logs" / "api.log").read_text()


@pytest.fixture
def with_keys(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """A service that demands keys; returns its address and makes keys."""
    with running_service(tmp_path, require_keys="true") as service:
        database = Database(f"sqlite:///{tmp_path / 'ctp.db'}")

        def key(role: str) -> str:
            return str(keys.create(database, "default", role, ""))

        key.url = service.url  # type: ignore[attr-defined]
        yield key
        database.dispose()


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("role", ["read", "write", "admin"])
def test_no_generated_call_with_a_key_is_answered_with_a_server_error(
    with_keys: Callable[[str], str], role: str
) -> None:
    url = with_keys.url  # type: ignore[attr-defined]
    header = f"Authorization: Bearer {with_keys(role)}"
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--header", header]
    command += ["--checks", "not_a_server_error", "--phases", "examples,fuzzing", "--seed", str(SEED)]
    command += ["--max-examples", "30", "--request-timeout", "60", "--exclude-path", "/jobs/{job_id}/events"]
    environment = os.environ | {"NO_COLOR": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    print(ended.stdout[-1500:])
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-1000:]
