"""`ctp bench paper` runs cells in processes of their own, and keeps each that is finished."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ctp_core.benchmarks.paper.cells import Cell, cells
from ctp_core.benchmarks.paper.pool import Pace, Report, known_costs, run_cells
from ctp_core.benchmarks.paper.store import Store
from tests.core.benchmarks.paper.rows import GCN, row_of


def test_the_time_left_is_that_of_the_cells_that_wait() -> None:
    pace = Pace(jobs=2)
    [gcn, lstm] = cells(1, [GCN, "clutrr/089907f8/short/lstm/0"])
    assert pace.eta([gcn], 0.0) is None
    pace.note(gcn, 10.0)
    assert pace.eta([gcn, gcn], 5.0) == 10.0
    pace.note(lstm, 30.0)
    assert pace.eta([lstm, gcn], 20.0) == 20.0
    assert pace.eta([lstm, gcn], 60.0) == 60.0  # 120 s of two processes for 40 s of work: others are at work here


def test_what_cells_cost_elsewhere_tells_the_time_left_at_once() -> None:
    [gcn, lstm] = cells(1, [GCN, "clutrr/089907f8/short/lstm/0"])
    pace = Pace(1, known_costs([row_of([GCN], 10.0), row_of(["clutrr/089907f8/short/gcn/1"], 20.0)]))
    assert pace.eta([gcn, lstm], 0.0) == 30.0
    pace.note(gcn, 5.0)
    assert pace.eta([gcn], 5.0) == 5.0


@pytest.mark.slow
def test_finished_cells_are_kept_and_not_run_again(data: Path, store: Store, tmp_path: Path) -> None:
    ended = list[Report]()
    chosen = cells(1, ["clutrr/089907f8/long/gcn/0", "clutrr/089907f8/short/rnn/0"])
    run_cells(chosen, data, store, 2, resume=True, on_cell=ended.append)
    assert [report.error for report in ended] == [None, None]
    assert {report.done for report in ended} == {1, 2}
    row = store.get(chosen[0].key(data))
    assert row is not None
    assert len(row["accuracy"]) == 7
    assert row["paths"] == [chosen[0].path]
    assert row["code"].startswith("0.")
    assert row["config"]["method"] == chosen[0].method
    again, elsewhere = list[Report](), Store(tmp_path / "elsewhere" / "paper.json")
    elsewhere.path.parent.mkdir()
    shutil.copy(store.path, elsewhere.path)
    run_cells(chosen, data, elsewhere, 2, resume=True, on_cell=again.append)
    assert again == []


@pytest.mark.slow
def test_a_cell_that_fails_says_so_and_the_others_go_on(data: Path, store: Store) -> None:
    broken = Cell("clutrr", "089907f8", "short", "lstm", 0, "lstm", "paper", {"dim": 4096, "hidden": 4096, "names": 2})
    ended = list[Report]()
    object.__setattr__(broken, "table", "nothing")
    run_cells([*cells(1, ["clutrr/089907f8/long/gcn/0"]), broken], data, store, 1, resume=True, on_cell=ended.append)
    assert sorted(report.error or "" for report in ended) == ["", "KeyError: 'nothing'"]


@pytest.mark.slow
@pytest.mark.parametrize("signal", [2, 9])
def test_a_run_that_is_stopped_ends_at_once_and_leaves_what_is_finished(data: Path, store: Store, signal: int) -> None:
    command = [
        sys.executable,
        "-m",
        "service.cli",
        "bench",
        "paper",
        "--data",
        str(data),
        "--seeds",
        "1",
        "--jobs",
        "1",
    ]
    filters = ["--only", "clutrr/089907f8/long/gcn/0", "--only", "clutrr/089907f8/long/lstm/0"]
    run = subprocess.Popen(
        [*command, "--report", str(store.path.parent), *filters], stderr=subprocess.DEVNULL, start_new_session=True
    )
    wait_for(lambda: store.path.exists() or run.poll() is not None, 120)
    run.send_signal(signal)
    assert run.wait(timeout=20) != 0
    assert [row["paths"][0] for row in json.loads(store.path.read_text())["cells"]] == ["clutrr/089907f8/long/gcn/0"]
    wait_for(lambda: not processes_of_session(run.pid), 20)  # no process goes on with a cell that nobody waits for


def wait_for(true: Callable[[], object], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.1)


def processes_of_session(session: int) -> list[str]:
    listed = subprocess.run(["ps", "-s", str(session), "-o", "stat="], capture_output=True, text=True, check=False)
    return [state for state in listed.stdout.split() if not state.startswith("Z")]
