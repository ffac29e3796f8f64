"""The file that keeps the rows of finished cells."""

import subprocess
import sys

import pytest

from ctp_core.benchmarks.paper.store import Store
from ctp_core.errors import DataError
from tests.core.benchmarks.paper.rows import row_of


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
