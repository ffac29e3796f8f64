"""Measures uploads and searches of a generated KB: the ladder's, of as many facts as asked for."""

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from ctp_core.benchmarks.ladder.synthetic import Shape, generate
from ctp_core.kb.knowledge_base import FactsKB
from service.local.cluster import Cluster

NAME = "generated"
ASKED = 7  # times that each question is asked; the median counts, and the first is told apart
WRITTEN = 100_000  # facts in memory while the file is written
TIMEOUT = 3600.0
SAMPLED_SECONDS = 0.05


@dataclass
class Took:
    """Seconds of a call: by the clock, and of the processor that the API used."""

    wall: float
    cpu: float


@dataclass
class StorageFigures:
    """What an upload costs, and each question about the KB in milliseconds (`first`, then the median of the others)."""

    num_facts: int
    num_entities: int
    file_bytes: int
    upload: Took
    bytes_over_idle: int
    stored_bytes: int
    name_bytes: int
    questions: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def bytes_per_fact(self) -> float:
        """Without names."""
        return (self.stored_bytes - self.name_bytes) / self.num_facts


def measure(num_facts: int, folder: Path | None = None) -> StorageFigures:
    """Starts an API of its own and uploads a KB to it; `folder` has room for the file and the store."""
    with tempfile.TemporaryDirectory(prefix="ctp-storage-", dir=folder) as name:
        file = Path(name) / "facts.tsv"
        shape = Shape(num_facts, predicates=40)
        kb = generate(shape).kb
        chosen = _questions(kb)
        num_entities = len(kb.entities)
        written = _write(kb, file)
        del kb
        with Cluster(Path(name), {"log_level": "WARNING"}) as cluster:
            cluster.start("api", "dispatch")
            with httpx.Client(base_url=cluster.url(), timeout=TIMEOUT) as client:
                client.get("/kbs/family/facts", params={"limit": 1}).raise_for_status()  # DuckDB is loaded
                with Peak(_process(cluster)) as peak:
                    upload = _took(cluster, lambda: _upload(client, file))
                stored = _stored(Path(name) / "artifacts" / "kbs")
                names = sum(path.stat().st_size for path in stored if path.suffix == ".names")
                every = sum(path.stat().st_size for path in stored)
                found = StorageFigures(written, num_entities, file.stat().st_size, upload, peak.bytes, every, names)
                for what, (path, params) in chosen.items():
                    found.questions[what] = _asked(cluster, client, path, params)
        return found


def _write(kb: FactsKB, file: Path) -> int:
    entities, predicates = kb.entities.names, kb.predicates.names
    ids, written = np.concatenate(list(kb.splits.values())), 0
    with file.open("w", encoding="utf-8") as out:
        for start in range(0, len(ids), WRITTEN):
            some = ids[start : start + WRITTEN].tolist()
            out.writelines(f"{entities[s]}\t{predicates[p]}\t{entities[o]}\n" for s, p, o in some)
            written += len(some)
    return written


def _questions(kb: FactsKB) -> dict[str, tuple[str, dict[str, str]]]:
    """A filter of every shape about a busy fact, its neighbourhood, and searches by prefix and misspelling."""
    ids = kb.splits["train"]
    hub = int(np.bincount(ids[:, 2]).argmax())
    names = kb.fact(ids[ids[:, 2] == hub][0].tolist())._asdict()
    places = ("subject", "predicate", "object")
    masks = ((), *((p,) for p in places), *((p, q) for p in places for q in places if p < q), places)
    facts = f"/kbs/{NAME}/facts"
    questions = {" ".join(given) or "all facts": (facts, {p: names[p] for p in given}) for given in masks}
    questions["neighbourhood"] = (f"/kbs/{NAME}/neighbourhood", {"entity": names["object"]})
    questions["prefix"] = (f"/kbs/{NAME}/entities", {"prefix": names["object"][:-1]})
    questions["misspelt"] = (facts, {"subject": f"{names['object']}x"})
    return questions


def _upload(client: httpx.Client, file: Path) -> None:
    with file.open("rb") as content:
        client.post("/kbs", data={"name": NAME}, files={"file": (file.name, content)}).raise_for_status()


def _stored(folder: Path) -> list[Path]:
    """The files of the largest KB."""
    kbs = [[path for path in kb.rglob("*") if path.is_file()] for kb in folder.iterdir()]
    return max(kbs, key=lambda paths: sum(path.stat().st_size for path in paths))


def _asked(cluster: Cluster, client: httpx.Client, path: str, params: dict[str, str]) -> dict[str, float]:
    took = [_took(cluster, lambda: client.get(path, params={**params, "limit": 100})) for _ in range(ASKED)]
    wall = [1000 * one.wall for one in took]
    return {
        "first_ms": wall[0],
        "median_ms": float(np.median(wall[1:])),
        "cpu_ms": 1000 * sum(one.cpu for one in took) / ASKED,
    }


def _took(cluster: Cluster, call: Callable[[], Any]) -> Took:
    began, used = time.perf_counter(), _cpu_seconds(_process(cluster))
    call()
    return Took(time.perf_counter() - began, _cpu_seconds(_process(cluster)) - used)


def _process(cluster: Cluster) -> int:
    process: subprocess.Popen[bytes] | None = cluster.parts["api"].process
    assert process is not None
    return process.pid


def _cpu_seconds(process: int) -> float:
    """The CPU seconds that all threads of a process have used, to a hundredth."""
    words = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Peak:
    """Watches how much memory a process takes over what it takes now."""

    def __init__(self, process: int) -> None:
        self.process, self.idle, self.bytes = process, _own_memory(process), 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLED_SECONDS):
            self.bytes = max(self.bytes, _own_memory(self.process) - self.idle)

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def _own_memory(process: int) -> int:
    """Resident bytes without those of mapped files, which the system takes back when it needs them."""
    words = Path(f"/proc/{process}/statm").read_text().split()
    return (int(words[1]) - int(words[2])) * os.sysconf("SC_PAGE_SIZE")
