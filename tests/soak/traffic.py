"""Mixed traffic: visitors who each live through one story after another, and delete what they have made."""

import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx

from service.local.cluster import wait_for
from tests.faults.watching import PROOFS
from tests.running import RunningService

CONFIG = PROOFS | {"templates": {"1": 4, "2": 4}, "epochs": 3}
ENDLESS = CONFIG | {"epochs": 10_000, "batch_size": 2}
EXPECTED = range(200, 300)
# What a caller may be told while workers are being killed, or others use the same.
PASSING = (409, 429, 503)
PEOPLE, WAIT_SECONDS = 40, 60


class Refused(Exception):
    """The story ends here: the service said so, as it may."""


@dataclass
class Record:
    """What all visitors were answered, by story."""

    calls: Counter[tuple[str, int]] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    cut_off: Counter[str] = field(default_factory=Counter)  # because the API was killed
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, story: str, answer: httpx.Response) -> None:
        with self.lock:
            self.calls[story, answer.status_code] += 1
            if answer.status_code not in {*EXPECTED, *PASSING}:
                answer.read()
                self.faults.append(f"{story}: {answer.request.method} {answer.url}: {answer.status_code} {answer.text}")

    def __str__(self) -> str:
        answers = Counter[int]()
        for (_, status), count in self.calls.items():
            answers[status] += count
        return "\n".join(
            [
                f"  stories ended: {dict(sorted(self.ended.items()))}, cut off: {dict(sorted(self.cut_off.items()))}",
                f"  answers by status: {dict(sorted(answers.items()))}",
            ]
        )


@dataclass
class Visitor:
    service: RunningService
    client: httpx.Client
    record: Record
    dice: random.Random
    story: str = ""
    made: list[str] = field(default_factory=list)

    def live(self, until: float) -> None:
        while time.monotonic() < until:
            self.tell(self.dice.choice(list(STORIES)))

    def tell(self, story: str) -> None:
        self.story, self.made = story, []
        api = self.service.children().get("api")
        try:
            self._live_through(story)
        except httpx.TransportError as error:
            with self.record.lock:
                if api is not None and self.service.children().get("api") == api:
                    self.record.faults.append(f"{story}: {error!r}")
                self.record.cut_off[story] += 1
            wait_for(self._is_back, "the API is back", WAIT_SECONDS)

    def _live_through(self, story: str) -> None:
        try:
            STORIES[story](self)
            self.record.ended[story] += 1
        except Refused:
            pass
        finally:
            for path in reversed(self.made):
                self.call("DELETE", path, at_least=False)

    def _is_back(self) -> bool:
        try:
            return self.client.get("/healthz").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def call(self, method: str, path: str, at_least: bool = True, **content: Any) -> httpx.Response:
        answer = self.client.request(method, path, **content)
        self.record.note(self.story, answer)
        if at_least and answer.status_code not in EXPECTED:
            raise Refused(answer.text)
        return answer

    def upload(self) -> str:
        name = f"kb-{uuid.uuid4().hex[:10]}"
        people = [f"person {number} ({name})" for number in range(PEOPLE)]
        facts = [[a, "parent", b] for a, b in pairwise(people)]
        facts += [[a, "grandparent", b] for a, b in zip(people, people[2:], strict=False)]
        self.dice.shuffle(facts)
        if self.dice.random() < 0.5:
            self.call("POST", "/kbs", json={"name": name, "facts": facts})
        else:
            lines = "".join("\t".join(fact) + "\n" for fact in facts)
            self.call("POST", "/kbs", data={"name": name}, files={"file": ("facts.tsv", lines.encode())})
        self.made.append(f"/kbs/{name}")
        return name

    def train(self, kb: str, config: dict[str, Any]) -> dict[str, Any]:
        body = {"kb": kb, "name": f"m-{uuid.uuid4().hex[:10]}", "config": config}
        if self.dice.random() < 0.3:
            body["seeds"] = [0, 1]
        headers = {"Idempotency-Key": uuid.uuid4().hex} if self.dice.random() < 0.3 else {}
        answer: dict[str, Any] = self.call("POST", "/train", json=body, headers=headers).json()
        self.made.append(f"/models/{answer['model']['id']}")
        return answer

    def trained(self, kb: str) -> str:
        """The id of a model that is ready."""
        answer = self.train(kb, CONFIG)
        job = self.call("GET", f"/jobs/{answer['job']['id']}", params={"wait": WAIT_SECONDS}).json()
        if job["status"] != "succeeded":
            self.call("POST", f"/jobs/{job['id']}/cancel", at_least=False)
            raise Refused(job["status"])
        return str(answer["model"]["id"])

    def ask(self, model: str, person: str | None = None, facts: Iterable[list[str]] = ()) -> None:
        goal = {"subject": person, "predicate": "grandparent", "object": None if person else "nobody"}
        self.call("POST", "/query", at_least=False, json={"model": model, "goal": goal, "facts": list(facts)})


def all_of_it(visitor: Visitor) -> None:
    kb = visitor.upload()
    model = visitor.trained(kb)
    for number in range(10):
        visitor.ask(model, f"person {number} ({kb})")
    visitor.call("GET", f"/models/{model}/rules")
    visitor.call("GET", f"/kbs/{kb}/export")
    visitor.call("PUT", f"/models/{model}/tags", json={"tags": {"kept": "no"}})


def moved(visitor: Visitor) -> None:
    """Exported, imported again, whole and damaged."""
    kb = visitor.upload()
    archive = visitor.call("GET", f"/models/{visitor.trained(kb)}/export").content
    headers = {"content-type": "application/zip"}
    answer = visitor.call("POST", "/models/import", params={"name": f"i-{kb}"}, content=archive, headers=headers)
    visitor.made.append(f"/models/{answer.json()['id']}")
    visitor.ask(answer.json()["id"], f"person 1 ({kb})")
    visitor.client.post("/models/import", content=archive[: len(archive) // 2], headers=headers)


def compared(visitor: Visitor) -> None:
    kb = visitor.upload()
    models = [visitor.trained(kb), visitor.trained(kb)]
    visitor.call("GET", "/models/compare", params={"ids": ",".join(models), "questions": 20})


def followed(visitor: Visitor) -> None:
    """To the end, or until the listener walks away."""
    job = visitor.train(visitor.upload(), CONFIG)["job"]
    patience = visitor.dice.choice([1, 5, 10_000])
    with visitor.client.stream("GET", f"/jobs/{job['id']}/events") as stream:
        visitor.record.note(visitor.story, stream)
        for number, _ in enumerate(stream.iter_lines()):
            if number == patience:
                break
    visitor.call("POST", f"/jobs/{job['id']}/cancel", at_least=False)


def cancelled(visitor: Visitor) -> None:
    job = visitor.train(visitor.upload(), ENDLESS)["job"]
    visitor.call("GET", f"/jobs/{job['id']}", params={"wait": visitor.dice.choice([0, 1, 5])})
    visitor.call("POST", f"/jobs/{job['id']}/cancel")


def heavy(visitor: Visitor) -> None:
    """Questions with many facts of their own, to a model that has to look at all of them."""
    kb = visitor.upload()
    model = visitor.trained(kb)
    hub = [[f"spoke {number}", "parent", "hub"] for number in range(1000)]
    for _ in range(3):
        visitor.ask(model, "hub", hub)


def looked_around(visitor: Visitor) -> None:
    for path in ("/kbs", "/models", "/jobs", "/readyz", "/metrics", "/presets?kb=family", "/kbs/nations/facts", "/"):
        visitor.call("GET", path, at_least=False)


STORIES: dict[str, Callable[[Visitor], None]] = {
    story.__name__: story for story in (all_of_it, moved, compared, followed, cancelled, heavy, looked_around)
}


def visit(service: RunningService, visitors: int, seconds: float, seed: int) -> Record:
    """Lets visitors come for a while."""
    record, until = Record(), time.monotonic() + seconds

    def live(number: int) -> None:
        with service.client() as client:
            Visitor(service, client, record, random.Random(seed + number)).live(until)

    threads = [threading.Thread(target=live, args=(number,)) for number in range(visitors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return record
