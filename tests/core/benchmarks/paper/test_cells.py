"""The cells of the paper's tables: which there are, and what each is run with."""

from collections import Counter
from pathlib import Path

import pytest

from ctp_core.benchmarks.paper.cells import COMMAND, PRESET_OF_TUNING, PUBLISHED, cells, in_paper
from ctp_core.benchmarks.paper.explained import LINK_NAMES, NAMES
from ctp_core.benchmarks.paper.link_settings import CTP, CTP_RANKED, GNTP_RULES
from ctp_core.benchmarks.paper.published import CLUTRR, LENGTHS, LINKS
from ctp_core.methods import methods_of
from ctp_core.networks.config import NETWORKS, network_preset
from ctp_core.presets import find_preset
from tests.core.benchmarks.paper.rows import GCN


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
    assert LINKS.keys() == GNTP_RULES.keys() == CTP.keys() == CTP_RANKED.keys()


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
        config = network_preset(method, find_preset(PRESET_OF_TUNING[tuning])).model_dump()
        assert {name: config[name] for name in expected} == expected


def test_a_training_knows_every_table_that_it_stands_in(data: Path) -> None:
    [long] = cells(1, ["clutrr/089907f8/long/mha/0"])
    assert long.paths(data) == ["clutrr/089907f8/long/mha/0", "clutrr/089907f8/short/mha/0"]
    [told] = cells(1, [f"clutrr/089907f8/short/mha{PUBLISHED}/0"])
    assert told.paths(data) == [told.path, f"clutrr/089907f8/long/mha{PUBLISHED}/0"]


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
