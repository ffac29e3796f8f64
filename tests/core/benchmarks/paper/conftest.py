"""Data sets and stores of a few made-up figures."""

import zipfile
from pathlib import Path

import pytest

from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.benchmarks.paper.published import LENGTHS
from ctp_core.benchmarks.paper.store import Store
from tests.core.benchmarks.test_clutrr import as_csv


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "clutrr").mkdir(parents=True)
    with zipfile.ZipFile(folder / "clutrr" / "089907f8.zip", "w") as archive:
        archive.writestr("1.2,1.3_train.csv", as_csv(family_graphs(200, (2, 3), seed=1)))
        for length in LENGTHS["089907f8"]:
            archive.writestr(f"1.{length}_test.csv", as_csv(family_graphs(5, (length,), seed=length)))
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results" / "paper.json")
