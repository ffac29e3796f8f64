"""The benchmark on small data sets of its own making, in the published layout."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ctp_core.benchmarks.links import LinksRun, run
from ctp_core.datasets.benchmarks import read_benchmark
from ctp_core.errors import DataError
from ctp_core.evaluation.auc_pr import auc_pr
from service.cli import app
from tests.core.families import random_family

KEYS = {"dataset", "model", "seeds", "train_cpu_seconds", "rank_triple_cpu_ms", "peak_rss_mb", "config"}
RANKING = {"mrr", "hits@1", "hits@3", "hits@10"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    family = random_family(1)
    facts = [f"{a}\tparent\t{b}\n" for a, b in family.parent]
    asked = [f"{a}\tgrandparent\t{b}\n" for a, b in family.grandparent]
    files = {"train": [*facts, *asked[6:]], "dev": asked[:3], "test": asked[3:6]}
    (tmp_path / "nations").mkdir()
    for name, lines in files.items():
        (tmp_path / "nations" / f"{name}.tsv").write_text("".join(lines))
    (tmp_path / "wn18rr").mkdir()
    with tarfile.open(tmp_path / "wn18rr" / "wn18rr.tar.gz", "w:gz") as archive:
        for name, member in (("train", "train.txt"), ("dev", "valid.txt"), ("test", "test.txt")):
            archive.add(tmp_path / "nations" / f"{name}.tsv", member)
    return tmp_path


@pytest.fixture
def countries(tmp_path: Path) -> Path:
    folder = tmp_path / "countries"
    folder.mkdir()
    (folder / "regions.txt").write_text("europe\nasia\n")
    (folder / "test.txt").write_text("france\n")
    rows = ["france\tlocatedIn\twestern", "western\tlocatedIn\teurope", "spain\tlocatedIn\twestern"]
    rows += ["italy\tlocatedIn\twestern", "italy\tlocatedIn\teurope", "china\tlocatedIn\tasia"]
    for name in ("S1", "S2", "S3"):
        (folder / f"countries_{name}.tsv").write_text("\n".join(rows[0 if name == "S1" else 1 :]) + "\n")
    return tmp_path


@pytest.mark.parametrize("dataset", ["nations", "wn18rr"])
def test_a_run_has_one_figure_per_seed(data: Path, dataset: str) -> None:
    figures = run(LinksRun(data, dataset, "proofs", settings={"epochs": 2}, seeds=2))
    assert set(figures) >= KEYS | RANKING
    assert all(len(figures[name]) == 2 for name in RANKING | {"train_cpu_seconds", "rank_triple_cpu_ms"})
    assert figures["seeds"] == [0, 1]


def test_a_killed_run_goes_on_from_its_checkpoint(data: Path, tmp_path: Path) -> None:
    links = LinksRun(data, "nations", "proofs", settings={"epochs": 3}, resume=tmp_path / "checkpoints")
    epochs: list[int] = []

    def stop(progress: object) -> None:
        epochs.append(getattr(progress, "epoch", 0))
        if len(epochs) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(links, stop)
    resumed = run(links, lambda progress: epochs.append(progress.epoch))
    assert epochs == [1, 2, 2, 3]  # the epoch that was not saved is done again
    assert resumed["mrr"] == run(LinksRun(data, "nations", "proofs", settings={"epochs": 3}))["mrr"]


def test_the_command_writes_the_figures(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    arguments = ["bench", "links", "--data", str(data), "--dataset", "nations", "--model", "complex"]
    result = CliRunner().invoke(app, [*arguments, "--config", '{"epochs": 1}', "--json", str(file)])
    assert result.exit_code == 0, result.output
    figures = json.loads(file.read_text())
    assert figures["model"] == figures["config"]["method"] == "complex"
    assert figures["command"].startswith("ctp ")


def test_countries_validates_on_withheld_countries_that_are_not_tested(countries: Path) -> None:
    kb = read_benchmark(countries, "countries-s2")
    assert [str(fact) for fact in kb.facts("test")] == ["locatedIn(france, europe)"]
    assert [str(fact) for fact in kb.facts("valid")] == ["locatedIn(spain, europe)"]
    figures = run(LinksRun(countries, "countries-s2", "proofs", settings={"epochs": 1}))
    assert 0 <= figures["auc_pr"][0] <= 1


def test_a_missing_data_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="umls"):
        read_benchmark(tmp_path, "umls")
    with pytest.raises(DataError, match="choose from"):
        read_benchmark(tmp_path, "freebase")


def test_auc_pr_by_hand() -> None:
    # Ranks: true, false, true: precision 1 at recall 1/2, 2/3 at recall 1.
    assert auc_pr(np.array([3.0, 2.0, 1.0]), np.array([True, False, True])) == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert auc_pr(np.array([1.0, 1.0]), np.array([True, False])) == pytest.approx(0.5)  # equal scores: one threshold
