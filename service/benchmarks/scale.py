"""Measures the gain of a second worker: the same jobs and queries on one and on two, on PostgreSQL and Redis."""

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx

from service.local.cluster import Cluster, wait_for
from service.local.postgres import postgres
from service.queue import alive, make_redis
from service.settings import Settings
from service.training.repository import TERMINAL

SETTINGS = {"relay_seconds": "0.1", "max_queued_jobs": "1000"}
KB = "umls"
GOALS_AT_ONCE = 32
CLIENTS = 8
MODELS = 4  # batches of one model wait for each other: more models keep more batches under way


@dataclass(frozen=True)
class ScaleRun:
    """What to measure; rounds with one and with two workers alternate, so that other load affects both alike."""

    jobs: int = 6
    epochs: int = 12
    query_seconds: float = 10.0
    rounds: int = 3


@dataclass
class Figures:
    """Jobs per minute and goals per second of each round, by number of workers."""

    run: ScaleRun
    jobs_per_minute: dict[int, list[float]] = field(default_factory=lambda: {1: [], 2: []})
    goals_per_second: dict[int, list[float]] = field(default_factory=lambda: {1: [], 2: []})
    load_average: list[float] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        return asdict(self) | {
            "training_speed_up": speed_up(self.jobs_per_minute),
            "query_speed_up": speed_up(self.goals_per_second),
        }


def speed_up(figures: dict[int, list[float]]) -> float:
    return statistics.median(figures[2]) / statistics.median(figures[1])


def measure(run: ScaleRun) -> Figures:
    figures = Figures(run)
    with postgres() as server, tempfile.TemporaryDirectory(prefix="ctp-scale-") as folder:
        settings = SETTINGS | {"database_url": server.url}
        with Cluster(Path(folder), settings) as cluster:
            cluster.start("api", "dispatch", "train", "query")
            cluster.wait_until_ready()
            with httpx.Client(base_url=cluster.url(), timeout=600) as client:
                models = train(client, MODELS, 3)
                for _ in range(run.rounds):
                    for workers in (1, 2):
                        figures.load_average.append(round(os.getloadavg()[0], 1))
                        with second(cluster, "train", workers):
                            figures.jobs_per_minute[workers].append(training(client, run))
                        with second(cluster, "query", workers):
                            figures.goals_per_second[workers].append(querying(client, models, run.query_seconds))
    return figures


@contextmanager
def second(cluster: Cluster, role: str, workers: int) -> Iterator[None]:
    """Runs a second worker of a role while the block runs, if `workers` is 2; it is warmed up first."""
    name = f"{role}-2"
    if workers == 1:
        yield
        return
    cluster.start(name)
    wait_for(lambda: _announced(cluster, role) == workers, f"{name} runs")
    if role == "train":
        with httpx.Client(base_url=cluster.url(), timeout=600) as client:
            train(client, 2 * workers, 1)  # after a training, its child has loaded torch
    yield
    cluster.parts[name].stop()
    wait_for(lambda: _announced(cluster, role) < workers, f"{name} has left")


def _announced(cluster: Cluster, role: str) -> int:
    with make_redis(Settings(redis_url=cluster.redis_url)) as redis:
        return alive(redis, role)


def train(client: httpx.Client, jobs: int, epochs: int) -> list[str]:
    """Runs jobs and returns their models when the last has ended."""
    started = []
    for number in range(jobs):
        config = {"method": "proofs", "epochs": epochs, "seed": number}
        answer = client.post("/train", json={"kb": KB, "name": f"scale-{epochs}", "config": config})
        answer.raise_for_status()
        started.append(answer.json()["job"])
    wait_for(lambda: all(_status(client, job["id"]) in TERMINAL for job in started), "all jobs have ended", 3600)
    return [job["model_id"] for job in started]


def _status(client: httpx.Client, job_id: str) -> str:
    status: str = client.get(f"/jobs/{job_id}").json()["status"]
    return status


def training(client: httpx.Client, run: ScaleRun) -> float:
    """Returns jobs per minute."""
    started = time.perf_counter()
    train(client, run.jobs, run.epochs)
    return 60 * run.jobs / (time.perf_counter() - started)


def querying(client: httpx.Client, models: Sequence[str], seconds: float) -> float:
    """Returns goals per second, asked by a few clients that wait for each answer."""
    entities = client.get(f"/kbs/{KB}/entities", params={"limit": GOALS_AT_ONCE}).json()["items"]
    predicate = client.get(f"/kbs/{KB}/predicates").json()["items"][0]["name"]
    goals = [{"subject": entity["name"], "predicate": predicate, "object": None} for entity in entities]
    for model in models:
        client.post("/query", json={"model": model, "goals": goals}).raise_for_status()
    stop = threading.Event()

    def ask(number: int) -> int:
        asked = 0
        while not stop.is_set():
            body = {"model": models[number % len(models)], "goals": goals, "proofs": 3}
            client.post("/query", json=body).raise_for_status()
            asked += len(goals)
        return asked

    with ThreadPoolExecutor(CLIENTS) as pool:
        started = time.perf_counter()
        answers = [pool.submit(ask, number) for number in range(CLIENTS)]
        stop.wait(seconds)
        stop.set()
        total = sum(answer.result() for answer in answers)
        return total / (time.perf_counter() - started)
