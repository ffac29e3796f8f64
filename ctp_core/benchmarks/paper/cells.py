"""The cells of the paper's tables: one training with one seed each, and its figures."""

import hashlib
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ctp_core import __version__
from ctp_core.base.config import BaseConfig
from ctp_core.benchmarks import clutrr, links
from ctp_core.benchmarks.data import read_benchmark
from ctp_core.benchmarks.paper import dynamics, link_settings
from ctp_core.benchmarks.paper.published import CLUTRR, LENGTHS, LINKS
from ctp_core.benchmarks.paper.published_code import PublishedTrainer
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.methods import METHODS
from ctp_core.networks.config import NETWORKS, NetworkConfig
from ctp_core.registry import create_trainer

VERSION = 1  # raised when what a cell measures changes, so that old figures are not taken for new ones
PRESET_OF_TUNING = {"short": "paper", "long": "paper-long"}
# The paper's 32 rules. The paper does not say its k (5 to 11) nor its optimiser (of two): ours were chosen on
# validation graphs (docs/lab/clutrr.md).
GNTP: dict[str, Any] = {"templates": ("2",) * 32, "top_k": 5, "optimiser": "adam", "learning_rate": 0.02}
PUBLISHED = "-published"  # the network as the published code has it
READERS = ("lstm", "gru", "rnn", "cnn", "cnnh", "mha")
# Like VERSION, for systems whose names end so. Raised for: facts in the order of the file, and layers that start as in
# the published code; rules that start near zero; facts read along one walk.
REVISIONS = {PUBLISHED: 3, "gntp": 2, **dict.fromkeys(READERS, 2)}
# As in the published code. MHA and the larger networks of the long tuning get fewer epochs: 100 take up to an hour.
ROWS: dict[str, Any] = {"distinct": False, "batch_size": 100, "steps": None, "epochs": 100}
FEWER = {"epochs": 15}
# Left out: states of 512 take minutes and show no more than those of 64. The LSTM does: it is not told the label.
NOT_PUBLISHED = {("rnn", "long"), ("gru", "long")}
COMMAND = "-command"  # the prover as the published command trains it: the preset itself
# Chosen on validation graphs: the paper's tables do not say theirs (its training curves have 5 reformulators).
PROVERS: dict[str, dict[str, Any]] = {
    "linear": {"templates": ("2",) * 5},
    "attentive": {"templates": ("2",) * 6},
    "memory": {
        **{"templates": ("2",) * 5, "memory": 512, "memory_start": 0.1},
        **{"optimiser": "adam", "learning_rate": 0.01, "schedule": "one-cycle"},
    },
}
SELECTS = tuple(PROVERS)
OURS = "ours"  # the preset `fast`, shown beside the paper's systems
DYNAMIC = (
    *(f"ctp-{select}{dynamics.DEEP}" for select in SELECTS),
    *(OURS, f"{OURS}-linear", f"{OURS}-memory"),
    *(f"ctp-{select}" for select in SELECTS),
    "gntp",
)
RANKED = "ctp-ranked"  # the paper's prover trained by rankings


@dataclass(frozen=True)
class Cell:
    """`path` is what filters match: table/data set/…/system/seed."""

    table: str
    dataset: str
    tuning: str
    system: str
    seed: int
    method: str
    preset: str
    settings: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def path(self) -> str:
        parts = (self.table, self.dataset, self.tuning, self.system, str(self.seed))
        return "/".join(part for part in parts if part)

    def key(self, data: Path) -> str:
        """Identifies a training: cells of one table that are the same training share a key.

        Settings at their defaults are left out, so that a setting that is added later voids no finished cell. Raise
        VERSION where a default changes.
        """
        identity = {"version": VERSION, "table": self.table, "dataset": self.dataset, "config": self.chosen(data)}
        identity |= {ending: number for ending, number in REVISIONS.items() if self.system.endswith(ending)}
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]

    def chosen(self, data: Path) -> dict[str, Any]:
        """The settings that are not at their defaults."""
        config = self.config(data)
        return {**config.model_dump(mode="json", exclude_defaults=True), "method": config.method}

    def paths(self, data: Path) -> list[str]:
        """The paths of all cells that are the same training, this cell's first."""
        key = self.key(data)
        near = [cell for cell in _of_seed(self.seed) if (cell.table, cell.dataset) == (self.table, self.dataset)]
        return [self.path, *(cell.path for cell in near if cell.path != self.path and cell.key(data) == key)]

    def config(self, data: Path) -> BaseConfig:
        if self.table == "links":
            return _links(self, data).config(_facts(data, self.dataset), self.seed)
        return clutrr.configure(_clutrr(self, data), _graphs(data, self.dataset).kb, self.seed)


def cells(seeds: int, only: Sequence[str] = ()) -> list[Cell]:
    """All cells, or those whose path matches a pattern, seed by seed: every cell soon has a first figure."""
    everything = [cell for seed in range(seeds) for cell in _of_seed(seed)]
    return [cell for cell in everything if not only or any(fnmatch(cell.path, pattern) for pattern in only)]


def _of_seed(seed: int) -> Iterator[Cell]:
    for dataset in LENGTHS:
        for tuning in PRESET_OF_TUNING:
            for system in (OURS, *CLUTRR[dataset, tuning], *systems_beside(tuning)):
                yield _graph_cell("clutrr", dataset, tuning, system, seed)
    for dataset, systems in LINKS.items():
        yield Cell("links", dataset, "", OURS, seed, "proofs", "fast")
        yield Cell("links", dataset, "", RANKED, seed, "ctp", "paper", link_settings.CTP_RANKED[dataset])
        for system in systems:
            method = "ctp" if system == "gntp" else system
            if ("facts", method) not in METHODS:
                continue
            preset = "paper-long" if system == "ctp" else "paper"  # the published commands have 100 epochs
            settings = link_settings.settings(system, dataset)
            yield Cell("links", dataset, "", system, seed, method, preset, settings)
    if seed == 0:
        for system in DYNAMIC:
            yield _graph_cell("dynamics", dynamics.DATASET, "", system, seed)


def systems_beside(tuning: str) -> list[str]:
    """Variants of the paper's systems, shown beside them; those of provers only once, as both tunings share them."""
    command = [f"ctp-{select}{COMMAND}" for select in SELECTS] if tuning == "short" else []
    return [*command, *(f"{system}{PUBLISHED}" for system in NETWORKS if (system, tuning) not in NOT_PUBLISHED)]


def in_paper(system: str) -> str:
    """The system whose published figures belong to this one: itself, or the system of which it is a variant."""
    return system.removesuffix(PUBLISHED).removesuffix(COMMAND)


def _graph_cell(table: str, dataset: str, tuning: str, system: str, seed: int) -> Cell:
    method = in_paper(system)
    if method in NETWORKS:
        rows = ROWS | (FEWER if method == "mha" or tuning == "long" else {})
        settings = rows if system.endswith(PUBLISHED) else {}
        return Cell(table, dataset, tuning, system, seed, method, PRESET_OF_TUNING[tuning], settings)
    ours = system.startswith(OURS)
    select = "attentive" if system == OURS else method.removesuffix(dynamics.DEEP).rpartition("-")[2]
    settings = {"select": select, **(GNTP if system == "gntp" else {})}
    if table == "dynamics":
        settings |= dynamics.settings(system)
    elif not ours and system == method:
        settings |= PROVERS.get(select, {})
    return Cell(table, dataset, tuning, system, seed, "ctp", "fast" if ours else "paper", settings)


def run_cell(cell: Cell, data: Path) -> dict[str, Any]:
    """Trains and tests on one thread; returns the row that the store keeps."""
    torch.set_num_threads(1)
    started = time.process_time()
    figures = RUNS[cell.table](cell, data)
    return {
        "key": cell.key(data),
        "paths": cell.paths(data),
        **_rounded(figures),
        "cpu_seconds": round(time.process_time() - started, 1),
        "config": cell.chosen(data),
        "code": code_version(),
    }


def _rounded(figures: Any) -> Any:
    """Rounds to six digits: more than a test set can tell, and easier to read and to compare."""
    if isinstance(figures, dict):
        return {name: _rounded(value) for name, value in figures.items()}
    if isinstance(figures, list | tuple):
        return [_rounded(value) for value in figures]
    return round(figures, 6) if isinstance(figures, float) else figures


@cache
def code_version() -> str:
    """The package's version, and the commit where this is a clone."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return __version__
    return f"{__version__}+{commit}"


def _run_clutrr(cell: Cell, data: Path) -> dict[str, Any]:
    graphs, config = _graphs(data, cell.dataset), cell.config(data)
    tests = [graphs.tests[length] for length in LENGTHS[cell.dataset]]
    if cell.system.endswith(PUBLISHED):
        assert isinstance(config, NetworkConfig)
        return {"accuracy": PublishedTrainer(config, graphs.kb).fit_and_test(tests)}
    model = create_trainer(config, graphs.kb, torch.device("cpu")).fit()
    return {"accuracy": [clutrr.accuracy_on(model, rows) for rows in tests]}


def _run_links(cell: Cell, data: Path) -> dict[str, Any]:
    return {"metrics": links.run_seed(_links(cell, data), _facts(data, cell.dataset), cell.seed)}


def _run_dynamics(cell: Cell, data: Path) -> dict[str, Any]:
    kb = _graphs(data, cell.dataset).kb
    return {"curve": dynamics.curve(cell.config(data), kb), "ceiling": dynamics.ceiling(kb)}


RUNS = {"clutrr": _run_clutrr, "links": _run_links, "dynamics": _run_dynamics}


def _clutrr(cell: Cell, data: Path) -> clutrr.ClutrrRun:
    settings = {name: value for name, value in cell.settings.items() if name != "select"}
    select = cell.settings.get("select", "linear")
    return clutrr.ClutrrRun(data, cell.dataset, cell.method, select, None, cell.preset, settings)


def _links(cell: Cell, data: Path) -> links.LinksRun:
    return links.LinksRun(data, cell.dataset, cell.method, cell.preset, cell.settings)


@cache
def _graphs(data: Path, dataset: str) -> clutrr.Data:
    return clutrr.load(clutrr.ClutrrRun(data, dataset))


@cache
def _facts(data: Path, dataset: str) -> FactsKB:
    return read_benchmark(data, dataset)
