"""The report and its summary, and the test of significance."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from ctp_core.benchmarks.paper.published import Published
from ctp_core.benchmarks.paper.report import Results, _cell, mark, welch, write_report
from ctp_core.benchmarks.paper.store import Store
from ctp_core.benchmarks.paper.summary import write_summary
from tests.core.benchmarks.paper.rows import GCN, fill, row_of


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
