"""Rows of made-up figures in the store."""

from pathlib import Path
from typing import Any

from ctp_core.benchmarks.paper.cells import cells
from ctp_core.benchmarks.paper.store import Store

GCN = "clutrr/089907f8/short/gcn/0"


def row_of(paths: list[str], seconds: float = 2.0, key: str = "", **figures: Any) -> dict[str, Any]:
    return {"key": key or paths[0], "paths": paths, "cpu_seconds": seconds, **figures}


def fill(store: Store, data: Path, path: str, **figures: Any) -> None:
    [cell] = cells(3, [path])
    store.put(row_of(cell.paths(data), key=cell.key(data), **figures))
