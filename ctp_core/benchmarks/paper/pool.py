"""Runs cells in processes of their own, and says how long the rest will take."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from pathlib import Path
from statistics import mean

from ctp_core.benchmarks.paper.cells import Cell, run_cell
from ctp_core.benchmarks.paper.store import Row, Store

Kind = str  # a path without its seed


@dataclass
class Pace:
    """Estimates the remaining time from what cells of each kind cost; an unknown kind costs the mean of the others.

    `known` has the CPU seconds of earlier runs, `here` those of this run. The latter also tell how much longer than its
    CPU time a cell takes on this machine, where other programs run.
    """

    jobs: int
    known: dict[Kind, list[float]] = field(default_factory=dict)
    here: dict[Kind, list[float]] = field(default_factory=dict)

    def note(self, cell: Cell, cpu_seconds: float) -> None:
        self.here.setdefault(_kind(cell), []).append(cpu_seconds)

    def eta(self, waiting: Sequence[Cell], elapsed: float) -> float | None:
        """Seconds until the waiting cells are done, None if no cost is known; `elapsed` is the time since the start."""
        costs = {kind: mean(values) for kind, values in (self.known | self.here).items()}
        if not costs:
            return None
        typical = mean(costs.values())
        spent = sum(sum(values) for values in self.here.values())
        stretch = max(1.0, self.jobs * elapsed / spent) if spent else 1.0
        return stretch * sum(costs.get(_kind(cell), typical) for cell in waiting) / self.jobs


def _kind(cell: Cell) -> Kind:
    """A path without its seed."""
    return cell.path.rpartition("/")[0]


def known_costs(rows: Iterable[Row]) -> dict[Kind, list[float]]:
    """CPU seconds of the cells of a store."""
    costs: dict[Kind, list[float]] = {}
    for row in rows:
        for path in row["paths"]:
            costs.setdefault(path.rpartition("/")[0], []).append(row["cpu_seconds"])
    return costs


@dataclass(frozen=True)
class Report:
    """The end of one cell; `error` says why it has no figures."""

    cell: Cell
    done: int
    total: int
    eta_seconds: float | None
    error: str | None = None


def run_cells(
    cells: Sequence[Cell], data: Path, store: Store, jobs: int, resume: bool, on_cell: Callable[[Report], None]
) -> None:
    """Runs every cell that has no figures yet (all, unless `resume`); equal trainings run once."""
    kept = store.rows()
    todo: dict[str, Cell] = {}
    for cell in cells:
        key = cell.key(data)
        if not (resume and key in kept):
            todo.setdefault(key, cell)
    pace = Pace(jobs, known_costs(kept.values()))
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=follow_parent) as pool:
        try:
            _drain({pool.submit(run_cell, cell, data): cell for cell in todo.values()}, store, pace, on_cell)
        except BaseException:
            _stop(pool)
            raise


def _drain(running: dict[Future[Row], Cell], store: Store, pace: Pace, on_cell: Callable[[Report], None]) -> None:
    total, started = len(running), time.monotonic()
    while running:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            cell, error = running.pop(future), future.exception()
            if error is None:
                row = future.result()
                store.put(row)
                pace.note(cell, row["cpu_seconds"])
            said = None if error is None else f"{type(error).__name__}: {error}"
            eta = pace.eta(list(running.values()), time.monotonic() - started)
            on_cell(Report(cell, total - len(running), total, eta, said))


def follow_parent() -> None:
    """Leaves Ctrl-C to the parent, which ends its children; also ends when the parent is killed and cannot."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _stop(pool: ProcessPoolExecutor) -> None:
    """Ends the pool at once; a cell that is under way is run again next time."""
    children = list(pool._processes.values())
    pool.shutdown(wait=False, cancel_futures=True)
    for child in children:
        child.terminate()
