"""Runs each rung in a process of its own, within bounds of memory and time, and keeps finished rows in a folder."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from ctp_core.benchmarks.ladder.memory import resident_bytes
from ctp_core.benchmarks.ladder.rungs import Row, Task, measure
from ctp_core.benchmarks.paper.cells import code_version
from ctp_core.benchmarks.paper.pool import follow_parent
from ctp_core.errors import CtpError, DataError

LOOK_SECONDS = 0.1  # between two looks at the memory of a child
OnPhase = Callable[[Task, str], None]


class OutOfTime(Exception):
    """The run may take no longer; the rung that was under way is not kept."""


@dataclass(frozen=True)
class Bounds:
    """Bytes that one rung may hold, and the monotonic time at which the run ends."""

    max_bytes: float
    ends_at: float = float("inf")

    @classmethod
    def of(cls, gigabytes: float, minutes: float) -> "Bounds":
        return cls(gigabytes * 2**30, time.monotonic() + 60 * minutes)


def run(tasks: Sequence[Task], bounds: Bounds, folder: Path | None, on_phase: OnPhase) -> Iterator[Row]:
    """A row for each rung; one that `folder` has is not measured again. Raises OutOfTime."""
    for task in tasks:
        kept = folder and _kept(folder / f"{task.name}.json")
        if kept:
            yield kept
            continue
        row = in_child(task, bounds, on_phase) | {"commit": code_version()}
        if folder:
            _keep(row, folder / f"{task.name}.json")
        yield row


def _kept(path: Path) -> Row | None:
    try:
        row: Row = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DataError(f"{path} does not hold a row of the ladder ({error}): remove it") from None
    return row


def _keep(row: Row, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(row, indent=1) + "\n")
    temporary.replace(path)  # a kill leaves no half of a row


def in_child(task: Task, bounds: Bounds, on_phase: OnPhase) -> Row:
    """Measures a rung; `failed` in its row says why it has no figures. Raises OutOfTime."""
    here, there = get_context("spawn").Pipe(duplex=False)
    child = get_context("spawn").Process(target=_child, args=(task, there), daemon=True)
    child.start()
    there.close()
    phase = "starting"
    try:
        while True:
            if here.poll(LOOK_SECONDS):
                said = here.recv()
                if isinstance(said, dict):
                    return said
                phase = said
                on_phase(task, phase)
            if resident_bytes(child.pid or 0) > bounds.max_bytes:
                reached = f"took more than {bounds.max_bytes / 2**30:g} GB and was ended"
                return task.empty | {"failed": f"{phase}: {reached}"}
            if time.monotonic() > bounds.ends_at:
                raise OutOfTime(f"{task.rung} was under way ({phase})")
    except EOFError:
        child.join()
        return task.empty | {"failed": f"{phase}: the process ended with code {child.exitcode}"}
    finally:
        here.close()
        child.kill()
        child.join()


def _child(task: Task, connection: Connection) -> None:
    follow_parent()
    torch.set_num_threads(1)

    def tell(phase: str) -> None:
        connection.send(phase)

    try:
        row = measure(task, tell)
    except CtpError as error:
        row = task.empty | {"failed": f"{type(error).__name__}: {error}"}
    connection.send(row)
