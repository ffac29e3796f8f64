"""`ctp bench paper`: its cells, the file that keeps them, the test of significance, and the report."""

import json
import shutil
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from ctp_core.base.config import BaseConfig
from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.benchmarks.paper import dynamics
from ctp_core.benchmarks.paper.cells import COMMAND, GNTP_RULES, PRESETS, PUBLISHED, ROWS, Cell, cells, in_paper
from ctp_core.benchmarks.paper.explained import LINK_NAMES, NAMES
from ctp_core.benchmarks.paper.pool import Pace, Report, known_costs, run_cells
from ctp_core.benchmarks.paper.published import CLUTRR, LENGTHS, LINKS, Published
from ctp_core.benchmarks.paper.published_code import PublishedTrainer, unmasked
from ctp_core.benchmarks.paper.published_layers import DepartingLayer, UnscaledEncoder
from ctp_core.benchmarks.paper.report import Results, _cell, mark, welch, write_report
from ctp_core.benchmarks.paper.store import Store
from ctp_core.benchmarks.paper.summary import write_summary
from ctp_core.errors import DataError
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import Graph, GraphsKB
from ctp_core.kb.profile import Profile
from ctp_core.methods import methods_of, parse_config, preset_for
from ctp_core.networks.config import NETWORKS, NetworkConfig, network_preset
from ctp_core.networks.messages import ConvolutionLayer, Edges
from ctp_core.networks.sequence import RecurrentEncoder
from ctp_core.symbols import Fact
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
        runnable = [system for system in systems if system in (*methods_of("facts"), "gntp")]
        assert {f"links/{dataset}/{system}/0" for system in runnable} <= set(paths)
    assert [path for path in paths if path.startswith("dynamics")]


def test_provers_of_the_link_table_are_the_published_ones() -> None:
    found = {cell.system: cell for cell in cells(1, ["links/umls/*"])}
    assert found["ctp"].preset == "paper-long"  # 100 epochs
    assert Counter(found["gntp"].settings["templates"]) == {"0": 1, "1": 20, "1R": 20, "2": 20}
    assert LINKS.keys() == GNTP_RULES.keys()


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


# The paper's appendix, method by method: graphs of three edges, then of nine. It leaves out the size of the LSTM on
# top of the attention for three edges and the encoding of GAT and GCN.
APPENDIX = {
    "gat": ({"heads": 10, "dim": 50, "edge_dim": 200}, {"heads": 10, "dim": 50, "edge_dim": 500}),
    "gcn": ({"dim": 50, "edge_dim": 500}, {"dim": 50, "edge_dim": 50}),
    "cnn": ({"dim": 50, "filters": 8, "encoding": "joint"}, {"dim": 200, "filters": 4, "encoding": "joint"}),
    "rnn": ({"dim": 50, "hidden": 64, "encoding": "joint"}, {"dim": 500, "hidden": 512, "encoding": "joint"}),
    "lstm": ({"dim": 50, "hidden": 64, "encoding": "joint"}, {"dim": 100, "hidden": 512, "encoding": "apart"}),
    "gru": ({"dim": 50, "hidden": 64, "encoding": "joint"}, {"dim": 200, "hidden": 512, "encoding": "joint"}),
    "cnnh": ({"dim": 200, "highway": 2, "encoding": "joint"}, {"dim": 200, "highway": 1, "encoding": "joint"}),
    "mha": ({"dim": 500, "heads": 10, "encoding": "joint"}, {"dim": 500, "heads": 10, "hidden": 128}),
}


@pytest.mark.parametrize("method", NETWORKS)
def test_networks_have_the_hyper_parameters_of_the_appendix(method: str) -> None:
    for tuning, expected in zip(("short", "long"), APPENDIX[method], strict=True):
        config = network_preset(method, PRESETS[tuning]).model_dump()
        assert {name: config[name] for name in expected} == expected


def test_welch_by_hand() -> None:
    assert welch([1.0, 2.0, 3.0], [2.0, 3.0, 4.0]) == pytest.approx(0.2879, abs=1e-4)  # t = -1.2247, 4 degrees
    assert welch([1.0], [1.0, 2.0]) is None
    assert welch([1.0, 1.0], [1.0, 1.0]) == 1.0
    assert welch([0.604651, 0.604651, 0.604651], [0.7, 0.8, 0.9]) == pytest.approx(0.0774, abs=1e-4)  # 2 degrees
    assert mark([0.5, 0.51, 0.52] * 3, [0.98, 0.99, 0.97] * 3) == "▼"
    assert mark([0.5, 0.6, 0.52], [0.7, 0.8, 0.9]) == ""
    assert mark([0.5, 0.55, 0.52], [0.70, 0.75, 0.80]) == "▽"
    assert mark([0.98, 0.99, 0.97] * 3, [0.5, 0.51, 0.52] * 3) == ""


def test_without_any_deviation_every_difference_is_marked() -> None:
    assert _cell([0.453], [], Published(0.719, None), digits=3) == ".453 (.719) ≠"
    assert _cell([0.715], [], Published(0.719, None), digits=3) == ".715 (.719)"


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


def row_of(paths: list[str], seconds: float = 2.0, key: str = "", **figures: Any) -> dict[str, Any]:
    return {"key": key or paths[0], "paths": paths, "cpu_seconds": seconds, **figures}


def fill(store: Store, data: Path, path: str, **figures: Any) -> None:
    [cell] = cells(3, [path])
    store.put(row_of(cell.paths(data), key=cell.key(data), **figures))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results" / "paper.json")


def test_a_cell_that_is_run_again_takes_the_place_of_what_it_was(store: Store) -> None:
    store.put(row_of(["a/0", "b/0"], key="old"))
    store.put(row_of(["a/1"], key="other"))
    store.put(row_of(["a/0", "b/0"], key="new"))
    assert sorted(store.rows()) == ["new", "other"]
    assert len(store.path.read_text().splitlines()) == 4  # a line for each cell, and two around them
    assert [file.name for file in store.path.parent.iterdir()] == ["paper.json"]


def test_rows_of_several_runs_that_write_at_the_same_time_add_up(store: Store) -> None:
    code = (
        "import sys; from pathlib import Path; from ctp_core.benchmarks.paper.store import Store\n"
        "path, name = sys.argv[1:]\n"
        "for i in range(20): Store(Path(path)).put({'key': f'{name}{i}', 'paths': [f'{name}/{i}']})"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code, str(store.path), name]) for name in "ab"]
    assert [run.wait(timeout=60) for run in runs] == [0, 0]
    assert len(store.rows()) == 40


def test_a_file_that_is_no_store_is_named(store: Store) -> None:
    store.path.parent.mkdir()
    store.path.write_text("[]")
    with pytest.raises(DataError, match=r"paper\.json"):
        store.rows()


def test_the_report_puts_ours_beside_the_papers(data: Path, store: Store, tmp_path: Path) -> None:
    for seed, shift in enumerate((0.0, 0.002, 0.004)):
        fill(store, data, f"clutrr/089907f8/short/ctp-linear/{seed}", accuracy=[0.97 + shift] * 7)
        fill(store, data, f"clutrr/089907f8/short/gcn/{seed}", accuracy=[0.85 + shift] * 7)
    text = write_report(Results.read(store, data), tmp_path).read_text()
    [linear] = [line for line in text.splitlines() if line.startswith("| CTP linear")][:1]
    [gcn] = [line for line in text.splitlines() if line.startswith("| GCN")][:1]
    assert ".97 ± .00 (.98 ± .02) |" in linear
    assert ".85 ± .00▼ (.84 ± .03) |" in gcn
    assert ".85 ± .00▼ (.39 ± .02) ≠ | 3 | 2 |" in gcn
    assert "| LSTM | (.98 ± .04) |" in text
    assert "--seeds 3" in text
    assert "**GCN**" in text.split("## Where we differ")[1]
    assert str(tmp_path) not in text
    picture = ElementTree.parse(tmp_path / "paper-089907f8-short.svg").getroot()
    assert picture.tag.endswith("svg")
    assert "GCN" in "".join(picture.itertext())


def test_the_summary_has_the_command_and_the_commits_of_its_figures_and_leads_to_the_report(
    data: Path, store: Store, tmp_path: Path
) -> None:
    for seed, code in enumerate(("0.1.0+aaaaaaa", "0.1.0+bbbbbbb-dirty", "0.1.0+aaaaaaa-dirty")):
        fill(store, data, f"clutrr/089907f8/short/gcn/{seed}", accuracy=[0.85 + 0.03 * seed] * 7, code=code)
    results, page = Results.read(store, data), tmp_path / "results"
    text = write_summary(results, page, tmp_path / "lab").read_text()
    report = write_report(results, tmp_path / "lab", plots=page)
    assert "| GCN | .88/.84 | .88/.68 |" in text
    assert "| 3 | `aaaaaaa`*,`bbbbbbb`* |" in text
    assert "--seeds 3 --only 'clutrr/089907f8/short/*'" in text
    assert "LSTM" not in text  # nothing of it was run
    for source, target in ((page, "../lab/paper.md"), (page, "paper-089907f8-short.svg")):
        assert f"]({target})" in text
        assert (source / target).exists()
    assert "](../results/paper-089907f8-short.svg)" in report.read_text()


def test_the_report_is_the_same_where_the_data_is_not(data: Path, store: Store, tmp_path: Path) -> None:
    fill(store, data, GCN, accuracy=[0.85] * 7)
    fill(store, data, "clutrr/089907f8/short/mha/0", accuracy=[0.6] * 7)
    here = Results.read(store, data).of
    assert sorted(group[2:] for group in here) == [("long", "mha"), ("short", "gcn"), ("short", "mha")]
    assert Results.read(store, tmp_path / "nothing").of == here


def test_rows_of_other_settings_are_not_reported(data: Path, store: Store) -> None:
    store.put(row_of([GCN], key="of other settings", accuracy=[0.85] * 7))
    assert Results.read(store, data).of == {}


def test_where_the_paper_has_no_deviation_ours_says_what_is_far(store: Store, tmp_path: Path) -> None:
    metrics = {"hits@1": 0.60, "hits@3": 0.81, "hits@10": 0.92}
    for seed, mrr in enumerate((0.50, 0.52)):
        store.put(row_of([f"links/kinship/minerva/{seed}"], metrics={**metrics, "mrr": mrr}))
    text = write_report(Results.read(store, tmp_path / "nothing"), tmp_path).read_text()
    assert ".510 ± .014 (.720) ≠ | .600 ± .000 (.605) |" in text
    assert "**MINERVA**" in text
    assert "| kinship | NeuralLP | (.619) | (.475) | (.707) | (.912) | 0 |  |" in text  # the paper's, not run here


def test_what_several_systems_share_is_said_once_before_what_each_has_of_its_own(data: Path, store: Store) -> None:
    for system in ("lstm", "cnn"):
        fill(store, data, f"clutrr/089907f8/short/{system}/0", accuracy=[0.1] * 7)
    text = write_report(Results.read(store, data), data).read_text()
    reasons = text[text.index("## Where we differ") :].splitlines()[1:]
    assert [line.split("**")[1] for line in reasons] == ["CNN, LSTM", "CNN", "LSTM"]


def small(method: str, select: str = "linear", **settings: Any) -> tuple[BaseConfig, GraphsKB]:
    kb = graphs_kb({"train": family_graphs(150, (2, 3), seed=1), "valid": family_graphs(40, (3,), seed=2)})
    preset = preset_for(Profile.of(kb), "fast", method, select)
    assert preset is not None
    return parse_config("graphs", {**preset.model_dump(), **settings}), kb


TINY = {"epochs": 10, "steps": None, "eval_every": 5, "learning_rate": 0.02, "batch_size": 32, "dim": 16}


def published(method: str, **settings: Any) -> tuple[PublishedTrainer, GraphsKB]:
    config, kb = small(method, **{**TINY, "dim": 20, **settings})
    assert isinstance(config, NetworkConfig)
    return PublishedTrainer(config, kb), kb


def test_the_published_network_is_told_the_label_in_training_and_testing() -> None:
    trainer, kb = published("cnn")
    tests = tuple(family_graphs(5, (4,), seed=3))
    names, read = list(kb.predicates), list[list[str]]()
    trainer.scorer.module.register_forward_pre_hook(
        lambda module, _: read.append([names[i] for i in module.told.tolist()])
    )
    trainer.loss(torch.arange(4))
    trainer.accuracy_on(tests)
    assert read == [[graph.label for graph in kb.splits["train"][:4]], [graph.label for graph in tests]]
    scores = []
    for labels in (trainer.train.labels[:4], trainer.train.labels[:4].roll(1, dims=1)):
        trainer._tell(labels)
        scores.append(trainer.scorer.scores(trainer.scorer.stack(trainer.train.instances[:4])))
    assert not scores[0].equal(scores[1])  # what is told is read


def test_the_published_network_reads_facts_as_the_file_tells_them() -> None:
    told = [Fact("Eve", "son", "Bob"), Fact("Bob", "aunt", "Dan"), Fact("Dan", "son", "Bob"), Fact("Bob", "son", "Al")]
    graph = Graph((*told, told[0]), "Eve", "Al", "aunt")
    trainer = PublishedTrainer(network_preset("cnn", "paper"), graphs_kb({"train": [graph] * 2}))
    rows = trainer._batch(torch.arange(2))
    aunt, son = (trainer.kb.predicates.id(name) for name in ("aunt", "son"))
    walk = [[3, son, 1], [1, aunt, 2], [2, son, 1], [1, son, 0], [3, son, 1]]  # Al, Bob, Dan, Eve; none is merged
    assert rows.named_facts.tolist() == [walk, walk]
    assert rows.named_goals.tolist() == [[3, 0], [3, 0]]


def test_published_attention_looks_at_one_place_where_vectors_differ_much() -> None:
    encoder = published("mha", dim=500)[0].scorer.module.encoder
    assert isinstance(encoder, UnscaledEncoder)
    with torch.no_grad():
        for comparison in (encoder.wanted, encoder.offered):
            comparison.weight.copy_(torch.eye(500))
        symbols = torch.randn(1, 6, 500, generator=torch.Generator().manual_seed(0))
        found = encoder.attended(symbols) - symbols  # each symbol is by far the most like itself
        assert torch.allclose(found, encoder.values(symbols), atol=1e-3)


def test_published_convolutions_count_the_facts_that_start_at_a_node() -> None:
    layer = published("gcn")[0].scorer.module.layers[0]
    assert isinstance(layer, DepartingLayer)
    edges = Edges(torch.tensor([0, 0, 0, 1, 2]), torch.tensor([1, 2, 0, 1, 2]), torch.zeros(5, 1), 3)
    assert layer.degrees(edges).tolist() == [3, 1, 1]
    assert ConvolutionLayer.degrees(layer, edges).tolist() == [1, 2, 2]


def test_published_attention_over_facts_has_three_heads_in_its_second_layer() -> None:
    layers = published("gat", heads=5)[0].scorer.module.layers
    assert [layer.heads for layer in layers] == [5, 3]


def test_the_published_network_is_told_nothing_where_goal_and_facts_are_encoded_apart() -> None:
    trainer, _ = published("lstm", encoding="apart")
    rows, scores = trainer._batch(torch.arange(4)), []
    for label in (0, 1):
        trainer.scorer.module.told = torch.full((4,), label)
        scores.append(trainer.scorer.scores(rows))
    assert scores[0].equal(scores[1])


@pytest.mark.parametrize("method", NETWORKS)
def test_the_published_network_never_trains_its_last_map_and_of_attention_only_vectors(method: str) -> None:
    trainer, _ = published(method, epochs=1)
    before = {name: tensor.clone() for name, tensor in trainer.scorer.module.state_dict().items()}
    trainer.train_epoch()
    changed = {name for name, tensor in trainer.scorer.module.state_dict().items() if not tensor.equal(before[name])}
    assert changed
    assert not [name for name in changed if name.startswith("projection")]
    if method == "mha":
        assert changed == {"symbols.weight"}


def test_the_published_network_takes_rows_in_the_order_of_the_file() -> None:
    kb = graphs_kb({"train": [*family_graphs(6, (2,), seed=1), *family_graphs(6, (3,), seed=2)]})
    config = network_preset("gcn", "paper").model_copy(update={**ROWS, "batch_size": 4, "epochs": 2})
    trainer, seen = PublishedTrainer(config, kb), list[list[int]]()
    trainer.scorer.module.register_forward_pre_hook(lambda _, given: seen.append(given[0].present.sum(dim=1).tolist()))
    trainer.train_epoch()
    trainer.train_epoch()
    assert seen == 2 * [[2, 2, 2, 2], [2, 2, 3, 3], [3, 3, 3, 3]]


def test_the_published_network_reads_the_direction_that_runs_backwards_at_its_first_step() -> None:
    encoder = published("lstm")[0].scorer.module.encoder
    assert isinstance(encoder, RecurrentEncoder)
    symbols = torch.randn(1, 9, 20)
    forwards, backwards = unmasked(encoder, symbols).chunk(2, dim=1)
    last = encoder.cell(symbols[:, -1:])[0][:, 0].chunk(2, dim=1)[1]
    assert torch.allclose(backwards, last)
    assert torch.allclose(forwards, encoder(symbols, torch.tensor([9])).chunk(2, dim=1)[0])


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
    plain, deep = dynamics.settings("ctp-linear"), dynamics.settings("ctp-linear-deep")
    assert {name for name in deep if deep[name] != plain.get(name)} == {
        "train_depth",
        "optimiser",
        "learning_rate",
        "memory",
    }


def test_a_training_knows_every_table_that_it_stands_in(data: Path) -> None:
    [long] = cells(1, ["clutrr/089907f8/long/mha/0"])
    assert long.paths(data) == ["clutrr/089907f8/long/mha/0", "clutrr/089907f8/short/mha/0"]
    [told] = cells(1, [f"clutrr/089907f8/short/mha{PUBLISHED}/0"])
    assert told.paths(data) == [told.path, f"clutrr/089907f8/long/mha{PUBLISHED}/0"]


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


def test_provers_of_the_published_command_stand_beside_the_published_figures_of_the_same_prover(data: Path) -> None:
    command = {cell.system: cell for cell in cells(1, [f"clutrr/089907f8/short/*{COMMAND}/0"])}
    assert command.keys() == {"ctp-linear-command", "ctp-attentive-command", "ctp-memory-command"}
    assert {in_paper(system) for system in command} <= CLUTRR["089907f8", "short"].keys()
    assert {len(cell.chosen(data)["templates"]) for cell in command.values()} == {3}
    assert not cells(1, [f"clutrr/089907f8/long/*{COMMAND}/0"])


def test_provers_of_the_tables_have_more_rules_than_the_command_and_are_the_same_in_both_tunings(data: Path) -> None:
    for select in ("linear", "attentive", "memory"):
        [short, long] = cells(1, [f"clutrr/089907f8/*/ctp-{select}/0"])
        assert short.key(data) == long.key(data)
        assert len(short.chosen(data)["templates"]) >= 5
        [curve] = cells(1, [f"dynamics/*/ctp-{select}/0"])
        assert curve.settings.keys() == {"select", "templates", "dim", "epochs"}  # its own, whatever the tables have
