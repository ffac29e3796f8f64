"""`ctp bench serve`: starts the embedded service, trains on samples, and measures from other processes."""

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from service.db.engine import Database
from service.db.tables import ModelVersion
from service.local.cluster import free_port

CLIENTS = (1, 16, 256)
STORM_CLIENTS, STORM_REQUESTS = 500, 10_000
PROOFS = (0, 3)
TOP_K = 10
NUM_QUESTIONS = 500
NUM_DIRECT = 200
HOST = "127.0.0.1"
READY = "Ctrl-C stops everything"
FINE = {"200", "429", "503"}


def measure(kbs: list[str], seconds: float, console: Console) -> dict[str, Any]:
    """Returns the rows of the table, the storm, the time of a first query, and the machine."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="ctp-bench-") as folder, _service(Path(folder)) as client:
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
    return {"rows": rows, "storm": storm, "first_query_seconds": first, "machine": _machine()}


def _row(
    client: httpx.Client,
    folder: Path,
    clients: int,
    bodies: list[dict[str, Any]],
    direct: dict[str, Any],
    seconds: float,
) -> dict[str, Any]:
    _load(client, min(16, clients), 200, bodies, seconds)
    before = _processes(folder)
    with _health_watched(client) as health:
        seen = _load(client, clients, 1_000_000, bodies, seconds)
    after = _processes(folder)
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
    before = _processes(folder)
    seen = _load(client, STORM_CLIENTS, STORM_REQUESTS, bodies, 120)
    after = _processes(folder)
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
    return _python("service.benchmarks.load", plan | {"bodies": bodies})


def _direct(folder: Path, model_id: str, bodies: list[dict[str, Any]]) -> dict[str, Any]:
    database = Database(f"sqlite:///{folder / 'ctp.db'}")
    with database.read() as session:
        artifact = session.get_one(ModelVersion, model_id).artifact
    database.dispose()
    plan = {"folder": str(folder / "artifacts" / str(artifact)), "bodies": bodies[:NUM_DIRECT]}
    return _python("service.benchmarks.direct", plan)


def _python(module: str, plan: dict[str, Any]) -> dict[str, Any]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", module]
    ended = subprocess.run(  # noqa: S603
        command, input=json.dumps(plan), env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise RuntimeError(f"{module} failed: {ended.stderr[-2000:]}")
    seen: dict[str, Any] = json.loads(ended.stdout)
    return seen


@contextmanager
def _health_watched(client: httpx.Client) -> Iterator[list[float]]:
    """Yields a list whose item is the slowest /healthz during the block, in milliseconds."""
    slowest, stop = [0.0], threading.Event()

    def watch() -> None:
        with httpx.Client(base_url=client.base_url, timeout=30) as own:
            while not stop.wait(0.2):
                began = time.perf_counter()
                own.get("/healthz")
                slowest[0] = max(slowest[0], round((time.perf_counter() - began) * 1000, 1))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield slowest
    finally:
        stop.set()
        thread.join()


def _first_query(kb: str, console: Console) -> float:
    """Returns the seconds of the first query after a start, when no worker has loaded the model."""
    console.print(f"first query on {kb} after a start")
    with tempfile.TemporaryDirectory(prefix="ctp-bench-") as folder:
        with _service(Path(folder)) as client:
            client.post("/train", params={"wait": 300}, json={"kb": kb, "name": kb, "config": {"epochs": 2}})
        with _service(Path(folder)) as client:
            body = _bodies(client, kb, 3)[0]
            began = time.perf_counter()
            client.post("/query", json=body).raise_for_status()
            return round(time.perf_counter() - began, 3)


@contextmanager
def _service(folder: Path) -> Iterator[httpx.Client]:
    port = free_port()
    settings = {"CTP_DATA_DIR": str(folder), "CTP_LOG_LEVEL": "WARNING"}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CTP_")} | settings
    command = [sys.executable, "-m", "service.cli", "up", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stdout is not None
    try:
        if not any(READY in line for line in process.stdout):
            raise RuntimeError("the service did not start")
        with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=310) as client:
            yield client
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@dataclass(frozen=True)
class Usage:
    """CPU seconds and megabytes of memory of one part."""

    cpu: float
    memory: float


def _processes(folder: Path) -> dict[str, Usage]:
    """Returns the usage of the API and the query worker: the processes with this data folder in their environment."""
    found: dict[str, Usage] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            mine = f"CTP_DATA_DIR={folder}".encode() in (process / "environ").read_bytes()
            words = (process / "cmdline").read_bytes().split(b"\0")
            ticks = (process / "stat").read_text().rsplit(")", 1)[1].split()[11:13]
            pages = int((process / "statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
        for part in ("api", "query"):
            if mine and part.encode() in words:
                cpu = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
                found[part] = Usage(cpu, pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
    return found


def _machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "load_average": [round(load, 2) for load in os.getloadavg()]}
