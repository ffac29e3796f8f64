"""Runs cells in processes of their own, and says how long the rest will take."""

import signal
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any

from ctp_core.benchmarks.paper.cells import Cell, run_cell
from ctp_core.benchmarks.paper.store import Store


@dataclass
class Pace:
    """What finished cells cost, by kind; an unknown kind costs the mean of those known."""

    jobs: int
    seconds: dict[tuple[str, ...], list[float]] = field(default_factory=lambda: defaultdict(list))

    def note(self, cell: Cell, seconds: float) -> None:
        self.seconds[_kind(cell)].append(seconds)

    def eta(self, waiting: Sequence[Cell]) -> float | None:
        known = {kind: mean(values) for kind, values in self.seconds.items()}
        if not known:
            return None
        typical = mean(known.values())
        return sum(known.get(_kind(cell), typical) for cell in waiting) / self.jobs


def _kind(cell: Cell) -> tuple[str, ...]:
    return cell.table, cell.dataset, cell.tuning, cell.system


@dataclass(frozen=True)
class Report:
    """One cell ended: `error` says why it has no figures."""

    cell: Cell
    done: int
    total: int
    eta_seconds: float | None
    error: str | None = None


def run_cells(
    cells: Sequence[Cell], data: Path, store: Store, jobs: int, resume: bool, on_cell: Callable[[Report], None]
) -> None:
    """Every cell that has no figures yet (all, unless `resume`), each training once."""
    todo: dict[str, Cell] = {}
    for cell in cells:
        key = cell.key(data)
        if not (resume and store.get(key)):
            todo.setdefault(key, cell)
    pace = Pace(jobs)
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_ignore_interrupts) as pool:
        try:
            _drain({pool.submit(run_cell, cell, data): key for key, cell in todo.items()}, todo, store, pace, on_cell)
        except BaseException:
            _stop(pool)
            raise


def _drain(
    running: dict[Future[dict[str, Any]], str],
    todo: dict[str, Cell],
    store: Store,
    pace: Pace,
    on_cell: Callable[[Report], None],
) -> None:
    waiting, total = dict(todo), len(todo)
    while running:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            key = running.pop(future)
            cell, error = waiting.pop(key), future.exception()
            if error is None:
                figures = future.result()
                store.put(key, figures)
                pace.note(cell, figures["cpu_seconds"])
            said = None if error is None else f"{type(error).__name__}: {error}"
            on_cell(Report(cell, total - len(waiting), total, pace.eta(list(waiting.values())), said))


def _ignore_interrupts() -> None:
    """Ctrl-C reaches the whole group; it is the parent that ends its children."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _stop(pool: ProcessPoolExecutor) -> None:
    """At once: a cell that is under way is run again next time."""
    children = list(pool._processes.values())
    pool.shutdown(wait=False, cancel_futures=True)
    for child in children:
        child.terminate()
