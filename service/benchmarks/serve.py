"""`ctp bench serve`: starts the embedded service, trains on samples, and measures from other processes."""

import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from service.benchmarks.embedded import embedded_service, in_python, machine, processes
from service.db.engine import Database
from service.db.tables import ModelVersion
from service.local.repeated import repeated

CLIENTS = (1, 16, 256)
STORM_CLIENTS, STORM_REQUESTS = 500, 10_000
PROOFS = (0, 3)
TOP_K = 10
NUM_QUESTIONS = 500
NUM_DIRECT = 200
FINE = {"200", "429", "503"}
LOOK_SECONDS = 0.2  # between two calls of /healthz


def measure(kbs: list[str], seconds: float, console: Console) -> dict[str, Any]:
    """Returns the rows of the table, the storm, the time of a first query, and the machine."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="ctp-bench-") as folder, embedded_service(Path(folder)) as client:
        for kb in kbs:
            console.print(f"training on {kb}")
            trained = client.post("/train", params={"wait": 300}, json={"kb": kb, "name": kb}).json()
            assert trained["job"]["status"] == "succeeded", trained
            for proofs in PROOFS:
                bodies = _bodies(client, kb, proofs)
                direct = _direct(Path(folder), trained["model"]["id"], bodies)
                for clients in CLIENTS:
                    rows.append(_row(client, Path(folder), clients, bodies, direct, seconds))
                    console.print_json(data=rows[-1])
        storm = _storm(client, Path(folder), kbs[0])
        console.print_json(data=storm)
    first = _first_query(kbs[-1], console)
    return {"rows": rows, "storm": storm, "first_query_seconds": first, "machine": machine()}


def _row(
    client: httpx.Client,
    folder: Path,
    clients: int,
    bodies: list[dict[str, Any]],
    direct: dict[str, Any],
    seconds: float,
) -> dict[str, Any]:
    _load(client, min(16, clients), 200, bodies, seconds)
    before = processes(folder)
    with _health_watched(client) as health:
        seen = _load(client, clients, 1_000_000, bodies, seconds)
    after = processes(folder)
    answered = max(1, seen["statuses"].get("200", 0))
    cpu = {f"{part}_cpu_ms": round((after[part].cpu - before[part].cpu) / answered * 1000, 3) for part in after}
    asked = {"kb": bodies[0]["model"], "clients": clients, "proofs": bodies[0]["proofs"]}
    figures = {key: seen[key] for key in ("p50_ms", "p99_ms", "qps")}
    errors = sum(number for status, number in seen["statuses"].items() if status != "200")
    return {**asked, **figures, "errors": errors, **direct, **cpu, "healthz_max_ms": health[0]}


def _storm(client: httpx.Client, folder: Path, kb: str) -> dict[str, Any]:
    """Asks with many clients at once; reports answers other than 200, 429 and 503, and the growth of memory."""
    bodies = _bodies(client, kb, 0)
    _load(client, STORM_CLIENTS, 2000, bodies, 60)
    before = processes(folder)
    seen = _load(client, STORM_CLIENTS, STORM_REQUESTS, bodies, 120)
    after = processes(folder)
    return {
        "kb": kb,
        "clients": STORM_CLIENTS,
        "requests": STORM_REQUESTS,
        **seen,
        "other_errors": sum(number for status, number in seen["statuses"].items() if status not in FINE),
        "grown_mb": {part: round(after[part].memory - before[part].memory, 1) for part in after},
    }


def _bodies(client: httpx.Client, kb: str, proofs: int) -> list[dict[str, Any]]:
    """Makes questions from facts of the KB, alternately for the object and the subject; always the same ones."""
    facts: list[dict[str, str]] = []
    cursor = None
    while True:
        page = client.get(f"/kbs/{kb}/facts", params={"limit": 1000} | ({"cursor": cursor} if cursor else {})).json()
        facts += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    chosen = random.Random(0).choices(facts, k=NUM_QUESTIONS)  # noqa: S311
    return [
        {
            "model": kb,
            "goal": {"subject": f["subject"], "predicate": f["predicate"], "object": f["object"]}
            | {("object", "subject")[number % 2]: None},
            "top_k": TOP_K,
            "proofs": proofs,
        }
        for number, f in enumerate(chosen)
    ]


def _load(
    client: httpx.Client, clients: int, requests: int, bodies: list[dict[str, Any]], seconds: float
) -> dict[str, Any]:
    url = client.base_url
    plan = {"host": url.host, "port": url.port, "clients": clients, "requests": requests, "seconds": seconds}
    return in_python("service.benchmarks.load", plan | {"bodies": bodies})


def _direct(folder: Path, model_id: str, bodies: list[dict[str, Any]]) -> dict[str, Any]:
    database = Database(f"sqlite:///{folder / 'ctp.db'}")
    with database.read() as session:
        artifact = session.get_one(ModelVersion, model_id).artifact
    database.dispose()
    plan = {"folder": str(folder / "artifacts" / str(artifact)), "bodies": bodies[:NUM_DIRECT]}
    return in_python("service.benchmarks.direct", plan)


@contextmanager
def _health_watched(client: httpx.Client) -> Iterator[list[float]]:
    """Yields a list whose item is the slowest /healthz during the block, in milliseconds."""
    slowest = [0.0]
    with httpx.Client(base_url=client.base_url, timeout=30) as own:

        def look() -> None:
            began = time.perf_counter()
            own.get("/healthz")
            slowest[0] = max(slowest[0], round((time.perf_counter() - began) * 1000, 1))

        with repeated(look, LOOK_SECONDS):
            yield slowest


def _first_query(kb: str, console: Console) -> float:
    """Returns the seconds of the first query after a start, when no worker has loaded the model."""
    console.print(f"first query on {kb} after a start")
    with tempfile.TemporaryDirectory(prefix="ctp-bench-") as folder:
        with embedded_service(Path(folder)) as client:
            client.post("/train", params={"wait": 300}, json={"kb": kb, "name": kb, "config": {"epochs": 2}})
        with embedded_service(Path(folder)) as client:
            body = _bodies(client, kb, 3)[0]
            began = time.perf_counter()
            client.post("/query", json=body).raise_for_status()
            return round(time.perf_counter() - began, 3)
