"""`ctp bench fair`: what one tenant notices while another sends the worst that it may."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from service.benchmarks.callers import Call, Group, Plan
from service.benchmarks.embedded import embedded_service, machine, processes
from service.benchmarks.hostile import ENDLESS, LOADS, Tenant
from service.db.engine import Database
from service.keys import service as keys
from service.local.repeated import repeated
from service.settings import Settings

# Shorter than by default, so that a worker that cannot renew its lease is noticed while a load lasts.
SETTINGS = {
    "lease_seconds": "6",
    "heartbeat_seconds": "2",
    "reconcile_seconds": "2",
    "query_memory_bytes": str(2 * 10**9),
}
GOAL = {"predicate": "grandparent", "object": "morty"}
PAUSE_SECONDS = 0.02  # between two calls of the tenant that is measured
WARM_SECONDS = 2.0
CALM_SECONDS = 5.0  # just before each load: what else is done on the machine changes in half an hour
LOOK_SECONDS = 0.25  # between two looks at the memory
QUERY_MS, QUERY_TIMES, HEALTH_MS, GROWTH = 250.0, 5, 250.0, 1.2  # the goals
COPIES = 3  # of what is held, while it is read: as bytes, as objects, and encoded again
MEASURED = ("num_good", "p50_ms", "p99_ms", "max_ms")
Row = dict[str, Any]


@dataclass(frozen=True)
class FairRun:
    """Which loads to measure, for how long each, and how long to wait until its memory is given back."""

    loads: Sequence[str] = tuple(LOADS)
    seconds: float = 20.0
    after_seconds: float = 60.0


def measure(run: FairRun, console: Console) -> dict[str, Any]:
    """Returns a row for each load, the first for none, and the machine."""
    with tempfile.TemporaryDirectory(prefix="ctp-fair-") as name, ExitStack() as stack:
        folder = Path(name)
        url = stack.enter_context(embedded_service(folder / "data", SETTINGS)).base_url
        hostile, other = (stack.enter_context(_tenant(folder / "data", tenant, url)) for tenant in ("hostile", "other"))
        other.train("family", "simple")
        bench = Bench(folder / "data", hostile, other, run, console)
        bench.measure_idle()
        for load in run.loads:
            bench.measure(LOADS[load](hostile))
    return {"rows": bench.rows, "machine": machine()}


@contextmanager
def _tenant(data: Path, name: str, url: httpx.URL) -> Iterator[Tenant]:
    database = Database(f"sqlite:///{data / 'ctp.db'}")
    key = str(keys.create(database, name, "write", ""))
    database.dispose()
    folder = data.parent / name
    folder.mkdir()
    with httpx.Client(base_url=url, timeout=310, headers={"Authorization": f"Bearer {key}"}) as client:
        yield Tenant(client, key, folder)


class Bench:
    """Measures one load after another on a started service."""

    def __init__(self, data: Path, hostile: Tenant, other: Tenant, run: FairRun, console: Console) -> None:
        self.data, self.hostile, self.other, self.run, self.console = data, hostile, other, run, console
        query = other.query("simple", GOAL, top_k=3)
        health = Call("GET", "/healthz")
        self.watched = tuple(
            Group(n, (c,), 1, PAUSE_SECONDS, patient=True) for n, c in (("query", query), ("healthz", health))
        )
        self.settings = Settings.model_validate(SETTINGS)
        self.rows: list[Row] = []

    def measure_idle(self) -> None:
        """Begins with calls that do not count, since code and models that are loaded once stay in memory."""
        self._called(self.watched, WARM_SECONDS)
        self.idle = self._memory()
        with self._training() as lost:
            seen = self._called(self.watched, self.run.seconds)
        self._note("idle", seen, {"memory_before_mb": self.idle}, lost)

    def measure(self, load: Group) -> None:
        calm = self._called(self.watched, CALM_SECONDS)
        before = self._memory()
        with self._training() as lost, self._peak() as peak, self._started((load,), self.run.seconds) as hostile:
            seen = self._called(self.watched, self.run.seconds)
        self._cancel_all()
        after, seconds = self._settled(self.idle)
        memory: Row = {"memory_before_mb": before, "memory_peak_mb": peak, "memory_after_mb": after}
        memory |= {"memory_bound_mb": bounds(self.idle, self.settings), "memory_settled_seconds": seconds}
        beside = {f"calm_{name}_p99_ms": part["p99_ms"] for name, part in calm.items()}
        self._note(load.name, seen | {"load": hostile[load.name]}, memory | beside, lost)

    def _cancel_all(self) -> None:
        """Ends what the load has ordered, so that the next one finds the workers free."""
        for status in ("queued", "running"):
            jobs = self.hostile.client.get("/jobs", params={"status": status, "limit": 1000}).raise_for_status()
            for job in jobs.json()["items"]:
                self.hostile.client.post(f"/jobs/{job['id']}/cancel")

    @contextmanager
    def _training(self) -> Iterator[Row]:
        """Trains beside the block; yields where it says after it what became of the job, which is ended then."""
        job_id, lost = self.other.start("nations", "trained", ENDLESS), Row()
        yield lost
        job = self.other.client.get(f"/jobs/{job_id}").raise_for_status().json()
        self.other.client.post(f"/jobs/{job_id}/cancel")
        progress = job["progress"] or {}
        lost |= {
            "jobs_failed": int(job["status"] == "failed"),
            "leases_lost": max(0, job["attempt"] - 1),
            "epochs": progress.get("epoch", 0),  # 0 if the only train worker has a job of the hostile tenant
        }

    def _note(self, name: str, seen: dict[str, Any], memory: Row, lost: Row) -> None:
        query, health = seen["query"], seen["healthz"]
        every = [part["statuses"] for part in seen.values()]
        row: Row = {
            "load": name,
            **{f"query_{key}": query[key] for key in MEASURED},
            **{f"healthz_{key}": health[key] for key in MEASURED},
            "query_not_200": {status: number for status, number in query["statuses"].items() if status != "200"},
            "answers_500": sum(statuses.get("500", 0) for statuses in every),
            "load_statuses": seen.get("load", {}).get("statuses", {}),
            **lost,
            **memory,
            "load_average": machine()["load_average"][0],
        }
        row["missed"] = missed(row, self.rows[0] if self.rows else row, self.idle)
        self.rows.append(row)
        self.console.print_json(data=row)

    def _plan(self, groups: Sequence[Group], seconds: float) -> str:
        url = self.hostile.client.base_url
        return Plan(url.host, url.port or 80, seconds, tuple(groups)).as_json()

    @contextmanager
    def _started(self, groups: Sequence[Group], seconds: float) -> Iterator[dict[str, Any]]:
        """Runs callers beside the block; yields where their figures are after it."""
        figures: dict[str, Any] = {}
        command = [sys.executable, "-m", "service.benchmarks.callers"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
            assert process.stdin is not None
            process.stdin.write(self._plan(groups, seconds))
            process.stdin.close()
            try:
                yield figures
                assert process.stdout is not None
                figures.update(json.loads(process.stdout.read()))
            finally:
                process.kill()

    def _called(self, groups: Sequence[Group], seconds: float) -> dict[str, Any]:
        with self._started(groups, seconds) as figures:
            pass
        return figures

    def _memory(self) -> dict[str, float]:
        return {part: round(usage.memory, 1) for part, usage in sorted(processes(self.data).items())}

    @contextmanager
    def _peak(self) -> Iterator[dict[str, float]]:
        """Yields the most memory of each part while the block runs."""
        peak = self._memory()

        def look() -> None:
            peak.update({part: max(now, peak.get(part, 0.0)) for part, now in self._memory().items()})

        with repeated(look, LOOK_SECONDS):
            yield peak

    def _settled(self, idle: dict[str, float]) -> tuple[dict[str, float], float]:
        """Waits until each part has at most a fifth more memory than when idle; returns its memory and the seconds."""
        began = time.monotonic()
        while grown(now := self._memory(), idle) and time.monotonic() - began < self.run.after_seconds:
            time.sleep(LOOK_SECONDS)
        return now, round(time.monotonic() - began, 1)


def bounds(idle: dict[str, float], settings: Settings) -> dict[str, float]:
    """Returns the most megabytes that each part may have while one tenant does its worst, by the settings.

    The API holds its bodies, its unread answers and one upload at a time; each process of the query worker has its
    limit; the dispatcher holds nothing of a tenant.
    """
    held = settings.max_tenant_waiting_bytes + settings.max_tenant_unread_bytes + settings.max_body_bytes
    return {
        "api": round(idle["api"] + COPIES * held / 1e6),
        "query": round(idle["query"] + settings.query_processes * settings.query_memory_bytes / 1e6),
        "dispatch": round(GROWTH * idle["dispatch"]),
    }


def grown(now: dict[str, float], idle: dict[str, float]) -> list[str]:
    """Returns the parts with more memory than they may keep."""
    return [part for part, megabytes in now.items() if megabytes > GROWTH * idle.get(part, 0.0)]


def missed(row: Row, first: Row, idle: dict[str, float]) -> list[str]:
    """Names the goals that a row misses; `first` is the row without a load, which counts if it was slower than what
    was measured just before this load."""
    calm = max(first["query_p99_ms"] or 0.0, row.get("calm_query_p99_ms") or 0.0)
    most, most_mb = max(QUERY_MS, QUERY_TIMES * calm), row.get("memory_bound_mb", {})
    checks = {
        "query p99": row["query_p99_ms"] is None or row["query_p99_ms"] > most,
        "query not 200": bool(row["query_not_200"]),
        "healthz p99": row["healthz_p99_ms"] is None or row["healthz_p99_ms"] > HEALTH_MS,
        "500": row["answers_500"] > 0,
        "jobs": row["jobs_failed"] + row["leases_lost"] > 0,
        **{f"most memory of {part}": True for part, bound in most_mb.items() if row["memory_peak_mb"][part] > bound},
        **{f"memory of {part}": True for part in grown(row.get("memory_after_mb", {}), idle)},
    }
    return [name for name, is_missed in checks.items() if is_missed]
