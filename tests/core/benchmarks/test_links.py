"""The benchmark on small data sets of its own making, in the published layout."""

import json
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ctp_core import artifact
from ctp_core.base.evaluation import auc_pr
from ctp_core.base.progress import Progress
from ctp_core.benchmarks.data import read_benchmark, read_resplit
from ctp_core.benchmarks.links import CPU_SECONDS, LinksRun, run
from ctp_core.errors import ConfigError, DataError
from service.cli import app
from tests.core.families import random_family

KEYS = {"dataset", "model", "seeds", "train_cpu_seconds", "rank_triple_cpu_ms", "peak_rss_mb", "config"}
ATTENTION = {"mined": False, "search": []}  # nothing that is mined or searched before the epochs
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


def countries_folder(data: Path) -> Path:
    """Holds the regions and the test country, and no facts."""
    folder = data / "countries"
    folder.mkdir()
    (folder / "regions.txt").write_text("europe\nasia\n")
    (folder / "test.txt").write_text("france\n")
    return folder


@pytest.fixture
def countries(tmp_path: Path) -> Path:
    folder = countries_folder(tmp_path)
    rows = ["france\tlocatedIn\twestern", "western\tlocatedIn\teurope", "spain\tlocatedIn\twestern"]
    rows += ["italy\tlocatedIn\twestern", "italy\tlocatedIn\teurope", "china\tlocatedIn\tasia"]
    for name in ("S1", "S2", "S3"):
        (folder / f"countries_{name}.tsv").write_text("\n".join(rows[0 if name == "S1" else 1 :]) + "\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["nations", "wn18rr"])
def test_a_run_has_one_figure_per_seed(data: Path, dataset: str) -> None:
    figures = run(LinksRun(data, dataset, "proofs", settings={**ATTENTION, "epochs": 2}, seeds=2))
    assert set(figures) >= KEYS | RANKING
    assert all(
        len(figures[name]) == 2 for name in RANKING | {"train_cpu_seconds", "train_batch_cpu_ms", "rank_triple_cpu_ms"}
    )
    assert figures["seeds"] == [0, 1]
    assert all(0 <= error <= 1 for error in figures["ece"])


@pytest.mark.slow
def test_a_killed_run_goes_on_from_its_checkpoint(data: Path, tmp_path: Path) -> None:
    links = LinksRun(data, "nations", "proofs", settings={**ATTENTION, "epochs": 3}, resume=tmp_path / "checkpoints")
    epochs: list[int] = []

    def stop(progress: object) -> None:
        epochs.append(getattr(progress, "epoch", 0))
        if len(epochs) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(links, stop)
    resumed = run(links, lambda progress: epochs.append(progress.epoch))
    assert epochs == [1, 2, 2, 3]  # the epoch that was not saved is done again
    assert resumed["mrr"] == run(replace(links, resume=None))["mrr"]


def test_the_seconds_of_a_killed_run_count(data: Path, tmp_path: Path) -> None:
    links = LinksRun(data, "nations", "proofs", settings={**ATTENTION, "epochs": 1}, resume=tmp_path)
    run(links)
    folder = tmp_path / links.checkpoint(0)
    saved = artifact.load(folder)
    artifact.save(replace(saved, manifest={**saved.manifest, CPU_SECONDS: 1000.0}), folder)
    assert 1000 < run(links)["train_cpu_seconds"][0] < 1100


@pytest.mark.slow
def test_a_killed_hybrid_goes_on_from_its_checkpoint(data: Path, tmp_path: Path) -> None:
    settings = {"epochs": 2, "budget_seconds": 2.0, "proofs": {"mined": False}}
    hybrid = LinksRun(data, "nations", "hybrid", settings=settings, resume=tmp_path / "checkpoints")

    def stop(progress: Progress) -> None:
        if progress.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(hybrid, stop)
    epochs: list[int] = []
    assert (
        run(hybrid, lambda progress: epochs.append(progress.epoch))["mrr"] == run(replace(hybrid, resume=None))["mrr"]
    )
    assert epochs[0] == 3  # that of the embedding which was not saved


@pytest.mark.slow
def test_a_hybrid_is_ranked_together_with_its_parts(data: Path) -> None:
    given = {**ATTENTION, "epochs": 2, "templates": {"1": 2, "2": 2}}
    figures = run(LinksRun(data, "nations", "hybrid", settings={"epochs": 2, "proofs": given}))
    alone = run(LinksRun(data, "nations", "proofs", settings=given))
    assert figures["proofs_mrr"] == pytest.approx(alone["mrr"])
    assert {f"{part}{name}" for part in ("", "proofs_", "embedding_") for name in RANKING} | {"weight"} <= set(figures)


def test_the_command_writes_the_figures(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    arguments = ["bench", "links", "--data", str(data), "--dataset", "nations", "--model", "complex"]
    result = CliRunner().invoke(app, [*arguments, "--config", '{"epochs": 1}', "--json", str(file)])
    assert result.exit_code == 0, result.output
    figures = json.loads(file.read_text())
    assert figures["model"] == figures["config"]["method"] == "complex"
    assert figures["command"].startswith("ctp ")


@pytest.mark.parametrize(("file", "remedy"), [("", "name a file"), ("nowhere/figures.json", "make it first")])
def test_figures_that_cannot_be_written_are_refused_before_they_are_made(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, remedy: str
) -> None:
    monkeypatch.setattr("ctp_core.benchmarks.links.run", None)
    words = ["bench", "links", "--data", str(data), "--dataset", "nations", "--json", str(tmp_path / file)]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "1000"})
    assert result.exit_code == 2
    assert remedy in result.output


@pytest.mark.slow
def test_countries_validates_on_withheld_countries_that_are_not_tested(countries: Path) -> None:
    kb = read_benchmark(countries, "countries-s2")
    assert [str(fact) for fact in kb.facts("test")] == ["locatedIn(france, europe)"]
    assert [str(fact) for fact in kb.facts("valid")] == ["locatedIn(spain, europe)"]
    figures = run(LinksRun(countries, "countries-s2", "proofs", settings={"epochs": 1}))
    assert 0 <= figures["auc_pr"][0] <= 1


def test_a_resplit_deals_what_is_not_test_anew(data: Path) -> None:
    published = read_benchmark(data, "nations")
    dealt = [read_resplit(data, "nations", number) for number in (0, 0, 1)]
    for kb in dealt:
        assert {split: len(ids) for split, ids in kb.splits.items()} == {
            "train": len(published.splits["train"]) - len(published.splits["test"]),
            "valid": len(published.splits["valid"]),
            "test": len(published.splits["test"]),
        }
        stated = sorted(str(fact) for split in kb.splits for fact in kb.facts(split))
        assert stated == sorted(str(fact) for split in ("train", "valid") for fact in published.facts(split))
    first, again, other = ([str(fact) for fact in kb.facts("test")] for kb in dealt)
    assert first == again != other


@pytest.mark.slow
def test_every_seed_of_a_resplit_run_has_its_own_facts(data: Path, tmp_path: Path) -> None:
    settings = {"epochs": 1, "learning_rate": 1e-6}
    links = LinksRun(data, "nations", "complex", settings=settings, seeds=2, split="resplit", resume=tmp_path / "saved")
    assert len(run(links)["mrr"]) == 2
    assert sorted(folder.name for folder in (tmp_path / "saved").iterdir()) == [
        f"nations-complex-fast-resplit-{seed}" for seed in (0, 1)
    ]


BORDERS = {"one": ["two", "three"], "two": ["one", "three"], "three": ["one", "two"], "four": ["one"], "five": ["four"]}


@pytest.fixture
def borders(tmp_path: Path) -> Path:
    """Five countries beside each other and a test country; all regions and subregions are told in S1."""
    folder = countries_folder(tmp_path)
    rows = ["western\tlocatedIn\teurope", "france\tlocatedIn\twestern", "france\tneighborOf\tone"]
    for country, others in BORDERS.items():
        rows += [f"{country}\tlocatedIn\twestern", f"{country}\tlocatedIn\teurope"]
        rows += [f"{country}\tneighborOf\t{other}" for other in others]
    (folder / "countries_S1.tsv").write_text("\n".join(rows) + "\n")
    return tmp_path


@pytest.mark.parametrize("dataset", ["countries-s1", "countries-s2", "countries-s3"])
def test_a_resplit_withholds_other_countries_in_the_way_of_the_data_set(borders: Path, dataset: str) -> None:
    kb = read_resplit(borders, dataset, 0)
    train = {str(fact) for fact in kb.facts("train")}
    asked = [fact for split in ("valid", "test") for fact in kb.facts(split)]
    chosen = {fact.subject for fact in asked}
    assert len(kb.facts("valid")) == len(kb.facts("test")) == 1
    assert len(chosen) == 2
    assert "france" not in chosen
    assert not {"locatedIn(france, western)", "locatedIn(france, europe)"} & train
    near = {country for country, others in BORDERS.items() if chosen & set(others)}
    without_region = {c for c in BORDERS if f"locatedIn({c}, europe)" not in train}
    without_subregion = {c for c in BORDERS if f"locatedIn({c}, western)" not in train}
    assert without_region == (chosen | near if dataset == "countries-s3" else chosen)
    assert without_subregion == (set() if dataset == "countries-s1" else chosen)


def test_a_missing_data_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="umls"):
        read_benchmark(tmp_path, "umls")
    with pytest.raises(DataError, match="choose from"):
        read_benchmark(tmp_path, "freebase")


def test_any_folder_with_files_of_the_splits_is_a_data_set(tmp_path: Path) -> None:
    own = tmp_path / "mine" / "countries-of-my-own"
    own.mkdir(parents=True)
    for file, line in (("train.txt", "a\tp\tb"), ("valid.tsv", "b\tp\tc"), ("test.txt", "c\tp\ta")):
        (own / file).write_text(line + "\n")
    kb = LinksRun(tmp_path, "mine/countries-of-my-own", "proofs").kb(0)
    assert {split: [str(fact) for fact in kb.facts(split)] for split in kb.splits} == {
        "train": ["p(a, b)"],
        "valid": ["p(b, c)"],
        "test": ["p(c, a)"],
    }
    (own / "valid.tsv").unlink()
    with pytest.raises(DataError, match="no split 'valid', only train, test"):
        LinksRun(tmp_path / "mine", own.name, "proofs", split="valid").kb(0)
    (own / "test.txt").unlink()
    with pytest.raises(DataError, match=r"no file test\.tsv or test\.txt"):
        read_benchmark(tmp_path / "mine", own.name)


def test_auc_pr_by_hand() -> None:
    # Ranks: true, false, true: precision 1 at recall 1/2, 2/3 at recall 1.
    assert auc_pr(np.array([3.0, 2.0, 1.0]), np.array([True, False, True])) == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert auc_pr(np.array([1.0, 1.0]), np.array([True, False])) == pytest.approx(0.5)  # equal scores: one threshold


@pytest.mark.slow
def test_a_seed_that_was_trained_before_leaves_out_what_only_training_tells(data: Path, tmp_path: Path) -> None:
    links = LinksRun(data, "nations", "proofs", settings={**ATTENTION, "epochs": 2}, resume=tmp_path / "kept")
    assert run(links)["train_batch_cpu_ms"][0] > 0
    figures = run(replace(links, seeds=2))
    assert "train_batch_cpu_ms" not in figures
    assert len(figures["mrr"]) == 2


@pytest.mark.slow
def test_data_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "service.cli", "bench", "links", "--data", str(tmp_path), "--dataset", "umls"]
    done = subprocess.run([*command, "--model", "proofs"], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    (said,) = done.stderr.strip().splitlines()
    assert said.startswith(f"ctp: data set 'umls' cannot be read from {tmp_path}: ")
    assert said.endswith("has no file train.tsv or train.txt")


def test_only_the_seeds_that_are_named_are_run(data: Path) -> None:
    links = LinksRun(data, "nations", "proofs", settings={**ATTENTION, "epochs": 1}, seeds=3)
    assert run(replace(links, only=(2,)))["seeds"] == [2]
    with pytest.raises(ConfigError, match="--only names seeds from 0 to 2"):
        run(replace(links, only=(3,)))
