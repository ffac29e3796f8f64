"""`ctp bench paper`: its cells, the folder that keeps them, the test of significance, and the report."""

import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from ctp_core.benchmarks.paper import dynamics
from ctp_core.benchmarks.paper.cells import Cell, cells
from ctp_core.benchmarks.paper.explained import LINK_NAMES, NAMES
from ctp_core.benchmarks.paper.pool import Pace, Report, run_cells
from ctp_core.benchmarks.paper.published import CLUTRR, LENGTHS, LINKS
from ctp_core.benchmarks.paper.report import Results, write_report
from ctp_core.benchmarks.paper.significance import mark, welch
from ctp_core.benchmarks.paper.store import Store
from ctp_core.benchmarks.paper.told import ToldTrainer
from ctp_core.config import METHODS, BaseConfig, Profile, parse_config, preset_for
from ctp_core.config.networks import NetworkConfig
from ctp_core.datasets.family_graphs import family_graphs
from ctp_core.datasets.graph_checks import graphs_kb
from ctp_core.datasets.kb import GraphsKB
from ctp_core.training.graph_examples import accuracy
from tests.core.benchmarks.test_clutrr import as_csv

GCN = "clutrr/089907f8/short/gcn/0"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "clutrr").mkdir(parents=True)
    with zipfile.ZipFile(folder / "clutrr" / "089907f8.zip", "w") as archive:
        archive.writestr("1.2,1.3_train.csv", as_csv(family_graphs(200, (2, 3), seed=1)))
        for length in LENGTHS["089907f8"]:
            archive.writestr(f"1.{length}_test.csv", as_csv(family_graphs(5, (length,), seed=length)))
    return folder


def test_every_cell_of_the_papers_tables_is_there_once() -> None:
    paths = [cell.path for cell in cells(2)]
    assert len(paths) == len(set(paths))
    for (dataset, tuning), systems in CLUTRR.items():
        assert len(systems) == 12
        assert all(len(row) == len(LENGTHS[dataset]) for row in systems.values())
        assert {f"clutrr/{dataset}/{tuning}/{system}/1" for system in systems} <= set(paths)
    for dataset, systems in LINKS.items():
        runnable = [system for system in systems if system in (*METHODS["facts"], "gntp")]
        assert {f"links/{dataset}/{system}/0" for system in runnable} <= set(paths)
    assert [path for path in paths if path.startswith("dynamics")]


def test_every_system_has_a_name_in_the_report() -> None:
    assert {cell.system for cell in cells(1)} <= {*NAMES, *LINK_NAMES}


def test_filters_choose_cells_and_first_seeds_come_first() -> None:
    chosen = [cell.path for cell in cells(3, ["clutrr/*/short/lstm/*"])]
    assert chosen == [f"clutrr/{dataset}/short/lstm/{seed}" for seed in range(3) for dataset in LENGTHS]


def test_a_training_that_stands_in_two_tables_is_one(data: Path) -> None:
    [short, long] = cells(1, ["clutrr/089907f8/*/mha/0"])
    assert short.key(data) == long.key(data)
    [other] = cells(1, [GCN])
    assert other.key(data) != short.key(data)
    [second] = cells(2, ["clutrr/089907f8/short/gcn/1"])
    assert second.key(data) != other.key(data)


def test_welch_by_hand() -> None:
    assert welch([1.0, 2.0, 3.0], [2.0, 3.0, 4.0]) == pytest.approx(0.2879, abs=1e-4)  # t = -1.2247, 4 degrees
    assert welch([1.0], [1.0, 2.0]) is None
    assert welch([1.0, 1.0], [1.0, 1.0]) == 1.0
    assert mark([0.5, 0.51, 0.52] * 3, [0.98, 0.99, 0.97] * 3) == "▼"
    assert mark([0.5, 0.6, 0.52], [0.7, 0.8, 0.9]) == ""
    assert mark([0.5, 0.55, 0.52], [0.70, 0.75, 0.80]) == "▽"
    assert mark([0.98, 0.99, 0.97] * 3, [0.5, 0.51, 0.52] * 3) == ""


def test_the_time_left_is_that_of_the_cells_that_wait() -> None:
    pace = Pace(jobs=2)
    [gcn, lstm] = cells(1, [GCN, "clutrr/089907f8/short/lstm/0"])
    assert pace.eta([gcn]) is None
    pace.note(gcn, 10.0)
    assert pace.eta([gcn, gcn]) == 10.0
    pace.note(lstm, 30.0)
    assert pace.eta([lstm, gcn]) == 20.0


def fill(store: Store, data: Path, path: str, figures: dict[str, Any]) -> None:
    [cell] = cells(3, [path])
    store.put(cell.key(data), {"path": path, "cpu_seconds": 2.0, **figures})


def test_the_report_puts_ours_beside_the_papers(data: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "cells")
    for seed, shift in enumerate((0.0, 0.002, 0.004)):
        fill(store, data, f"clutrr/089907f8/short/ctp-linear/{seed}", {"accuracy": [0.97 + shift] * 7})
        fill(store, data, f"clutrr/089907f8/short/gcn/{seed}", {"accuracy": [0.85 + shift] * 7})
    only_here = [cell for cell in cells(3) if cell.dataset == "089907f8"]
    path = write_report(Results.read(only_here, data, store), tmp_path, 3)
    text = path.read_text()
    [linear] = [line for line in text.splitlines() if line.startswith("| CTP linear")][:1]
    [gcn] = [line for line in text.splitlines() if line.startswith("| GCN")][:1]
    assert ".97 ± .00 (.98 ± .02) |" in linear
    assert ".85 ± .00▼ (.84 ± .03) |" in gcn
    assert ".85 ± .00▼ (.39 ± .02) ≠ | 3 | 2 |" in gcn
    assert "| LSTM | (.98 ± .04) |" in text
    assert "**GCN**" in text.split("## Where we differ")[1]
    assert str(tmp_path) not in text
    picture = ElementTree.parse(tmp_path / "paper-089907f8-short.svg").getroot()
    assert picture.tag.endswith("svg")
    assert "GCN" in "".join(picture.itertext())


def test_the_report_needs_only_the_data_that_is_there(data: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "cells")
    fill(store, data, GCN, {"accuracy": [0.85] * 7})
    assert list(Results.read(cells(1), data, store).of) == [("clutrr", "089907f8", "short", "gcn")]


def small(method: str, select: str = "linear", **settings: Any) -> tuple[BaseConfig, GraphsKB]:
    kb = graphs_kb({"train": family_graphs(150, (2, 3), seed=1), "valid": family_graphs(40, (3,), seed=2)})
    preset = preset_for(Profile.of(kb), "fast", method, select)
    assert preset is not None
    return parse_config({**preset.model_dump(), **settings}), kb


@pytest.mark.slow
def test_a_network_that_is_told_the_label_reads_it_in_training_validation_and_testing() -> None:
    config, kb = small("rnn", epochs=10, steps=None, eval_every=5, learning_rate=0.02, batch_size=32, dim=16, hidden=16)
    assert isinstance(config, NetworkConfig)
    told = ToldTrainer(config, kb)
    assert len(told.valid_scores()) == len(told.valid.instances)
    assert told.fit_and_test([tuple(family_graphs(60, (4,), seed=3))])[0] > 0.9
    assert told.best_loss < 0.5
    with torch.no_grad():
        told._tell(told.valid.labels.roll(1, dims=1))  # a wrong label is believed as well
        assert accuracy(told.scorer.scores(told.scorer.stack(told.valid.instances)), told.valid) < 0.5


def test_a_curve_has_a_point_at_the_start_and_after_every_few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamics, "ITERATIONS", 5)
    monkeypatch.setattr(dynamics, "EVERY", 2)
    config, kb = small("ctp", **dynamics.settings("ours"), batch_size=32)
    points = dynamics.curve(config, kb)
    assert [iteration for iteration, _ in points] == [0, 2, 4]
    assert all(0 <= share <= 1 for _, share in points)
    assert points[-1][1] > points[0][1]


def test_nobody_reaches_more_than_the_commonest_label_of_every_graph() -> None:
    _, kb = small("ctp")
    once = dynamics.ceiling(kb)
    graph = kb.splits["train"][0]
    other = next(name for name in kb.targets if name != graph.label)
    twice = graphs_kb({"train": [*kb.splits["train"], replace(graph, label=other)]})
    assert dynamics.ceiling(twice) < once <= 1


def test_the_deep_curves_differ_from_the_published_settings_in_training_alone() -> None:
    published, deep = dynamics.settings("ctp-linear"), dynamics.settings("ctp-linear-deep")
    assert {name for name in deep if deep[name] != published.get(name)} == {
        "train_depth",
        "optimiser",
        "learning_rate",
        "memory",
    }


@pytest.mark.slow
def test_finished_cells_are_kept_and_not_run_again(data: Path, tmp_path: Path) -> None:
    store, ended = Store(tmp_path / "cells"), list[Report]()
    chosen = cells(1, ["clutrr/089907f8/long/gcn/0", "clutrr/089907f8/short/rnn/0"])
    run_cells(chosen, data, store, 2, resume=True, on_cell=ended.append)
    assert [report.error for report in ended] == [None, None]
    assert {report.done for report in ended} == {1, 2}
    figures = store.get(chosen[0].key(data))
    assert figures is not None
    assert len(figures["accuracy"]) == 7
    again = list[Report]()
    run_cells(chosen, data, store, 2, resume=True, on_cell=again.append)
    assert again == []


@pytest.mark.slow
def test_a_cell_that_fails_says_so_and_the_others_go_on(data: Path, tmp_path: Path) -> None:
    broken = Cell("clutrr", "089907f8", "short", "lstm", 0, "lstm", "paper", {"dim": 4096, "hidden": 4096, "names": 2})
    store, ended = Store(tmp_path / "cells"), list[Report]()
    object.__setattr__(broken, "table", "nothing")
    run_cells([*cells(1, ["clutrr/089907f8/long/gcn/0"]), broken], data, store, 1, resume=True, on_cell=ended.append)
    assert sorted(report.error or "" for report in ended) == ["", "KeyError: 'nothing'"]


@pytest.mark.slow
def test_a_run_that_is_interrupted_ends_at_once_and_leaves_what_is_finished(data: Path, tmp_path: Path) -> None:
    kept, report = tmp_path / "cells", tmp_path / "report"
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
    where = ["--cells", str(kept), "--report", str(report)]
    filters = ["--only", "clutrr/089907f8/long/gcn/0", "--only", "clutrr/089907f8/long/lstm/0"]
    run = subprocess.Popen([*command, *where, *filters], stderr=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 120
    while not list(kept.glob("*.json")):
        assert run.poll() is None
        assert time.monotonic() < until
        time.sleep(0.1)
    run.send_signal(2)
    assert run.wait(timeout=20) != 0
    assert len(list(kept.iterdir())) == 1
