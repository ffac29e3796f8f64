"""`ctp bench clutrr`, on a small data set in the format of the published ones."""

import csv
import io
import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ctp_core.benchmarks import clutrr
from ctp_core.benchmarks.clutrr import ClutrrRun, accuracy_on, configure, load, run
from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.ctp_graphs.model import CtpGraphsModel
from ctp_core.errors import ConfigError
from ctp_core.kb.formats.clutrr import UNTYPED
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import Graph
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact

KEYS = {
    *("dataset", "model", "select", "prover", "seeds", "accuracy", "train_cpu_seconds", "train_batch_cpu_ms"),
    *("eval_instance_cpu_ms", "depth", "peak_rss_mb", "config", "command"),
}


def as_csv(graphs: list[Graph]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["story_edges", "edge_types", "query_edge", "target", "genders"])
    for graph in graphs:
        length = len(graph.facts)
        people = [graph.facts[0].subject, *(fact.object for fact in graph.facts)]
        edges = [(i, i + 1) for i in range(length)]
        types = [fact.predicate for fact in graph.facts]
        writer.writerow([edges, types, (0, length), graph.label, ",".join(f"{name}:male" for name in people)])
    return text.getvalue()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "clutrr").mkdir()
    with zipfile.ZipFile(tmp_path / "clutrr" / "small.zip", "w") as archive:
        archive.writestr("1.2,1.3_train.csv", as_csv(family_graphs(200, (2, 3), seed=1)))
        for length in (4, 10):
            archive.writestr(f"1.{length}_test.csv", as_csv(family_graphs(10, (length,), seed=length)))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["--select", "attentive", "--prover", "tabled", "--config", '{"epochs": 3}'],
        ["--select", "linear", "--prover", "exact", "--preset", "paper", "--config", '{"epochs": 1}'],
    ],
    ids=["tabled", "paper"],
)
def test_the_command_writes_the_figures_that_were_promised(data: Path, options: list[str]) -> None:
    out = data / "figures.json"
    command = [sys.executable, "-m", "service.cli", "bench", "clutrr", "--data", str(data), "--dataset", "small"]
    run = [*command, "--model", "ctp", "--seeds", "2", "--json", str(out), *options]
    done = subprocess.run(run, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert " 10 edges" in done.stdout
    figures = json.loads(out.read_text())
    assert set(figures) >= KEYS
    assert set(figures["accuracy"]) == {"4", "10"}
    for values in figures["accuracy"].values():
        assert len(values) == 2
        assert all(0 <= value <= 1 for value in values)
    assert len(figures["train_cpu_seconds"]) == 2
    assert set(figures["eval_instance_cpu_ms"]) == {"4", "10"}
    assert figures["prover"] == figures["config"]["prover"] == options[3]
    assert figures["depth"] == (4 if "exact" in options else None)
    assert "--dataset small" in figures["command"]


def test_validation_looks_at_no_test_file(data: Path) -> None:
    tested, chosen = (load(ClutrrRun(data, "small", split=split)) for split in ("test", "valid"))
    assert set(tested.tests) == {4, 10}
    assert set(chosen.tests) == {3}
    assert {len(graph.facts) for graph in chosen.kb.splits["train"]} == {2}


def test_settings_of_the_command_line_win_over_the_preset(data: Path) -> None:
    kb = load(ClutrrRun(data, "small")).kb
    run = ClutrrRun(data, "small", select="memory", prover="exact", preset="paper", settings={"dim": 7}, depth=3)
    config = configure(run, kb, seed=4)
    assert (config.select, config.prover, config.dim, config.depth, config.seed) == ("memory", "exact", 7, 3, 4)
    for wrong in (ClutrrRun(data, "small", model="complex"), ClutrrRun(data, "small", preset="x")):
        with pytest.raises(ConfigError):
            configure(wrong, kb, seed=0)


@pytest.mark.slow
def test_robust_data_sets_keep_every_task_and_the_noise(tmp_path: Path) -> None:
    """As 06b8f2a1 has them: several training files, and tests of one length that differ in their noise."""
    (tmp_path / "clutrr").mkdir()
    noisy = as_csv(family_graphs(5, (3,), seed=3)).replace("(2, 3)]", "(2, 3), (3, 1)]")
    with zipfile.ZipFile(tmp_path / "clutrr" / "robust.zip", "w") as archive:
        archive.writestr("1.2_train.csv", as_csv(family_graphs(200, (2,), seed=1)))
        archive.writestr("1.3_train.csv", as_csv(family_graphs(300, (3,), seed=2)))
        archive.writestr("1.3_test.csv", as_csv(family_graphs(5, (3,), seed=4)))
        archive.writestr("2.3_test.csv", noisy)
    data = load(ClutrrRun(tmp_path, "robust"))
    assert len(data.kb.splits["train"]) == 500
    assert list(data.tests) == ["1.3", "2.3"]
    assert UNTYPED not in data.kb.predicates
    figures = run(ClutrrRun(tmp_path, "robust", settings={"epochs": 1, "depth": 3}, seeds=1))
    assert set(figures["accuracy"]) == {"1.3", "2.3"}


def test_noise_that_training_never_saw_changes_no_accuracy(tmp_path: Path) -> None:
    graphs = family_graphs(20, (3,), seed=3)
    noisy = [replace(g, facts=(*g.facts, Fact(g.object, UNTYPED, g.subject))) for g in graphs]
    lost = replace(graphs[0], facts=tuple(Fact(f.subject, UNTYPED, f.object) for f in graphs[0].facts))
    kb = graphs_kb({"train": family_graphs(60, (2, 3), seed=1)})
    asked = create_trainer(configure(ClutrrRun(tmp_path, "family"), kb, seed=0), kb, torch.device("cpu")).model()
    assert isinstance(asked, CtpGraphsModel)
    assert accuracy_on(asked, noisy) == accuracy_on(asked, graphs)
    assert accuracy_on(asked, [*graphs, lost]) == pytest.approx(accuracy_on(asked, graphs) * 20 / 21)
    assert accuracy_on(asked, [lost]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("prover", ["tabled", "exact"])
def test_the_long_chain_is_timed_where_it_can_be_proved(prover: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FAMILY_TRAIN", 60), ("FAMILY_TEST", 5), ("FAMILY_LENGTHS", (4,)), ("CHAIN_LENGTH", 20)):
        monkeypatch.setattr(clutrr, name, value)
    settings = {"epochs": 1, "depth": None if prover == "tabled" else 2}
    figures = run(ClutrrRun(Path(), "family", prover=prover, settings=settings, seeds=1))
    assert (figures["chain_cpu_seconds"] is None) == (prover == "exact")
    assert figures["accuracy"].keys() == {"4"}


@pytest.mark.slow
def test_finished_seeds_are_kept_and_only_those_named_are_run(data: Path, tmp_path: Path) -> None:
    task = ClutrrRun(data, "small", settings={"epochs": 1}, seeds=3, resume=tmp_path / "kept", only=(1,))
    first = run(task)
    assert first["seeds"] == [1]
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["small-ctp-attentive-fast-test-1.json"]
    again = run(task)
    assert again["train_cpu_seconds"] == first["train_cpu_seconds"], "kept, not measured again"
    other = run(replace(task, settings={"epochs": 2}))
    assert other["train_cpu_seconds"] != first["train_cpu_seconds"]
    with pytest.raises(ConfigError, match="--only names seeds from 0 to 2"):
        run(replace(task, only=(7,)))
