"""What a running service holds: memory, descriptors and processes of each part, files, rows, keys of the queue."""

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from redis import Redis
from sqlalchemy import func, select

from service.db.engine import Database
from service.db.tables import Table
from service.settings import MIB
from tests.running import RunningService

# Rows that stay by design: a version's number is never used twice, and what a job was can be read later.
KEPT_TABLES = ("models", "jobs", "metrics", "train_workers", "idempotency_keys")
# What Python and torch take for a part that has nothing to do differs from one start to the next.
MEMORY_FACTOR, MEMORY_SLACK = 1.2, 32 * MIB
DESCRIPTORS_SLACK = 8


@dataclass
class Inventory:
    """All numbers are at one moment."""

    memory: Counter[str] = field(default_factory=Counter)
    descriptors: Counter[str] = field(default_factory=Counter)
    processes: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    queue_keys: int = 0

    @classmethod
    def take(cls, service: RunningService) -> "Inventory":
        found = cls(rows=_rows(service), files=_files(service), queue_keys=_queue_keys(service))
        parts = service.children() | {"supervisor": service.process.pid}
        for part, number in parts.items():
            parent = psutil.Process(number)
            for process in [parent, *(parent.children(recursive=True) if part != "supervisor" else [])]:
                found.memory[part] += process.memory_info().rss
                found.descriptors[part] += process.num_fds()
                found.processes[part] += 1
        return found

    def growth_since(self, before: "Inventory") -> list[str]:
        """A line for everything that has grown although all that was created is deleted."""
        grown = [
            f"memory of {part}: {before.memory[part] // MIB} -> {size // MIB} MiB"
            for part, size in self.memory.items()
            if size > before.memory[part] * MEMORY_FACTOR + MEMORY_SLACK
        ]
        grown += _more("descriptors of", before.descriptors, self.descriptors, DESCRIPTORS_SLACK)
        grown += _more("processes of", before.processes, self.processes)
        grown += _more("files in", before.files, self.files)
        kept = {table: count for table, count in self.rows.items() if table not in KEPT_TABLES}
        grown += _more("rows of", before.rows, Counter(kept))
        if self.queue_keys > before.queue_keys:
            grown.append(f"keys of the queue: {before.queue_keys} -> {self.queue_keys}")
        return grown

    def __str__(self) -> str:
        parts = [
            f"  {part}: {self.memory[part] // MIB} MiB, {self.descriptors[part]} descriptors, "
            f"{self.processes[part]} processes"
            for part in sorted(self.processes)
        ]
        rows = ", ".join(f"{table} {count}" for table, count in sorted(self.rows.items()) if count)
        files = ", ".join(f"{folder} {count}" for folder, count in sorted(self.files.items()))
        return "\n".join([*parts, f"  files: {files}", f"  rows: {rows}", f"  keys of the queue: {self.queue_keys}"])


def _more(what: str, before: Counter[str], after: Counter[str], slack: int = 0) -> list[str]:
    return [
        f"{what} {name}: {before[name]} -> {count}" for name, count in after.items() if count > before[name] + slack
    ]


def _rows(service: RunningService) -> Counter[str]:
    database = Database(f"sqlite:///{service.folder / 'ctp.db'}")
    try:
        with database.read() as session:
            return Counter(
                {
                    table.name: session.scalars(select(func.count()).select_from(table)).one()
                    for table in Table.metadata.sorted_tables
                }
            )
    finally:
        database.dispose()


def _files(service: RunningService) -> Counter[str]:
    """By folder; the logs have a bound of their own."""
    # `Path.rglob` fails at a folder that is removed meanwhile; this passes over it.
    found = ((Path(folder).relative_to(service.folder).parts, files) for folder, _, files in os.walk(service.folder))
    numbers: Counter[str] = Counter()
    for parts, files in found:
        if parts and parts[0] not in {"logs", "queue"}:
            numbers[parts[0]] += len(files)
    return +numbers


def _queue_keys(service: RunningService) -> int:
    with Redis(unix_socket_path=str(service.folder / "queue.sock")) as redis:
        # Celery's worker and the presence of parts come and go.
        return sum(not key.startswith((b"ctp:alive:", b"_kombu", b"unacked")) for key in redis.scan_iter(count=1000))
