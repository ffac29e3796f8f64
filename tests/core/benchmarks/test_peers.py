"""`ctp bench peers`: every program in a process of its own, and what is published beside it."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ctp_core.benchmarks.peers import PUBLISHED, measure_pykeen
from tests.core.families import random_family


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A family under the name of a published data set: every tenth fact tests."""
    family = random_family(1)
    facts = [(a, name, b) for name in ("parent", "grandparent", "sister") for a, b in getattr(family, name)]
    folder = tmp_path / "nations"
    folder.mkdir()
    for file, rows in (("train", facts[::2] + facts[1::10]), ("dev", facts[1::10]), ("test", facts[5::10])):
        (folder / f"{file}.tsv").write_text("".join("\t".join(fact) + "\n" for fact in rows))
    return tmp_path


@pytest.mark.slow
def test_a_run_measures_ours_and_quotes_the_others(data: Path) -> None:
    out = data / "rows.json"
    command = [sys.executable, "-m", "service.cli", "bench", "peers", "--data", str(data), "--dataset", "nations"]
    done = subprocess.run(
        [*command, "--model", "distmult", "--json", str(out)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "ctp distmult" in done.stdout
    ours, pykeen, *published = json.loads(out.read_text())
    assert ours["source"] == "measured"
    assert 0 < ours["metrics"]["mrr"] <= 1
    assert ours["train_cpu_seconds"] > 0
    assert ours["peak_mb"] > 50
    assert ours["query_ms"] > 0
    assert pykeen["name"] == "PyKEEN ComplEx"
    if importlib.util.find_spec("pykeen") is None:
        assert ".[peers]" in pykeen["source"]
        assert "[peers]" in "".join(done.stdout.split())  # brackets are no markup, wherever a line is broken
    assert [row["name"] for row in published] == list(PUBLISHED["nations"])
    assert all(row["source"].startswith("published: ") for row in published)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pykeen") is None, reason="PyKEEN is an extra")
def test_pykeen_is_ranked_by_our_ranking(data: Path) -> None:
    row = measure_pykeen(data, "nations", seed=0)
    assert set(row.metrics) == {"mrr", "hits@1", "hits@3", "hits@10"}
