"""`ctp bench ladder`: its rungs, the figures of one, what is kept, and the page."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from ctp_core.benchmarks.ladder import processes
from ctp_core.benchmarks.ladder.processes import Bounds, OutOfTime, in_child, run
from ctp_core.benchmarks.ladder.report import growth, write_report
from ctp_core.benchmarks.ladder.rungs import KEYS, Row, Task, chosen, found_rules, measure
from ctp_core.benchmarks.ladder.synthetic import Shape, SyntheticKB, generate
from ctp_core.errors import ConfigError, DataError
from ctp_core.rules import Body, Rule, Step
from service.cli import app

SMALL = Task(Shape(400, 6), method="rules")


def row_of(rung: str, seconds: float) -> Row:
    facts, predicates, shape = rung.split("-")
    known = {"facts": int(facts), "predicates": int(predicates), "shape": shape, "train_cpu_seconds": seconds}
    return {**dict.fromkeys(KEYS), **known, "rung": rung, "preset": "fast", "method": None, "commit": "0.1+abc"}


def test_the_rungs_are_every_size_with_every_number_of_predicates_and_density() -> None:
    rungs = [task.rung for task in chosen((), "fast", None)]
    assert len(rungs) == len(set(rungs)) == 4 * 3 * 2 + 1
    assert {"1000-6-sparse", "20000-25-dense", "1000000-1000-dense"} <= set(rungs)


def test_only_takes_the_rungs_that_match_and_names_them_where_none_does() -> None:
    assert [task.rung for task in chosen(["1000-25-*"], "fast", None)] == ["1000-25-sparse", "1000-25-dense"]
    with pytest.raises(ConfigError, match=r"no rung matches '5-\*': rungs are 1000-6-sparse, "):
        chosen(["5-*"], "fast", None)
    with pytest.raises(ConfigError, match="preset 'slow' is not known"):
        chosen((), "slow", None)
    with pytest.raises(ConfigError, match="method 'magic' does not work"):
        chosen((), "fast", "magic")


@pytest.mark.slow
def test_a_row_has_every_figure() -> None:
    phases: list[str] = []
    row = measure(SMALL, phases.append)
    assert list(row)[: len(KEYS)] == list(KEYS)
    assert None not in [row[key] for key in KEYS]
    assert (row["facts"], row["predicates"], row["shape"]) == (400, 6, "dense")
    assert 0 < row["mrr"] <= 1
    assert 0 <= row["planted_found"] <= row["planted_rules"] == 4
    assert phases == ["generating the KB", "training", "asking questions", "ranking test facts"]
    json.dumps(row)


@pytest.mark.slow
def test_a_rung_that_takes_too_much_memory_is_ended_and_noted() -> None:
    row = in_child(SMALL, Bounds(max_bytes=10 * 2**20), lambda task, phase: None)
    assert row["failed"].endswith("took more than 0.00976562 GB and was ended")
    assert row["mrr"] is None


@pytest.mark.slow
def test_a_run_that_is_out_of_time_ends() -> None:
    with pytest.raises(OutOfTime, match="400-6-dense was under way"):
        in_child(SMALL, Bounds.of(6, minutes=0), lambda task, phase: None)


def test_finished_rungs_are_kept_and_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def measured_once(task: Task, bounds: Bounds, on_phase: object) -> Row:
        measured.append(task.rung)
        return task.empty

    monkeypatch.setattr(processes, "in_child", measured_once)
    tasks = chosen(["1000-6-*"], "fast", None)
    first = list(run(tasks[:1], Bounds.of(1, 1), tmp_path, lambda task, phase: None))
    assert [*run(tasks, Bounds.of(1, 1), tmp_path, lambda task, phase: None)][:1] == first
    assert measured == ["1000-6-sparse", "1000-6-dense"]
    next(tmp_path.glob("*.json")).write_text("{")
    with pytest.raises(DataError, match="does not hold a row of the ladder"):
        list(run(tasks, Bounds.of(1, 1), tmp_path, lambda task, phase: None))


def test_planted_rules_count_only_among_the_first_of_their_head() -> None:
    made = generate(Shape(1_000, 6))
    planted = list(made.rules)
    others = [Rule("acts_on", Body((Step(f"other{number}"),)), 0.9) for number in range(5)]
    assert len(made.heads["acts_on"]) == 2
    assert _found(planted, made) == len(planted)
    assert _found(others[:3] + planted, made) == len(planted) - 1, "of two rules, one is fourth and one fifth"
    assert _found(others + planted, made) == len(planted) - 2
    about_one = [Rule("acts_on", Body((Step("targets"),), about="X"), 0.9)] * 5
    assert _found(about_one + planted, made) == len(planted), "priors are not listed"
    named = [rule for rule in planted if rule.constant]
    assert _found(named * 4 + planted, made) == len(planted), "rules with constants have a list of their own"
    assert _found([], made) == 0


def _found(rules: list[Rule], made: SyntheticKB) -> int:
    found: int = found_rules(rules, made)["planted_found"]
    return found


def test_growth_is_the_exponent_that_all_series_share() -> None:
    rows = [row_of("1000-6-sparse", 1), row_of("10000-6-sparse", 10), row_of("1000-25-dense", 5)]
    rows += [row_of("10000-25-dense", 50), row_of("100000-25-dense", 500), row_of("1000-1000-dense", 9)]
    grown = growth(rows)
    assert grown.exponent == pytest.approx(1)
    assert grown.largest_step == pytest.approx(10)
    assert growth(rows[:1]).exponent is None


def test_the_page_has_a_line_for_each_rung_and_a_plot(tmp_path: Path) -> None:
    ended = row_of("100000-6-dense", 0) | {"train_cpu_seconds": None, "failed": "training: took more than 6 GB"}
    full = dict.fromkeys(KEYS, 0.5) | row_of("1000-6-dense", 2) | {"forecast_cpu_seconds": 4, "entities": 100}
    page = write_report([full, row_of("10000-6-dense", 20), ended], "ctp bench ladder", tmp_path)
    text = page.read_text()
    assert text.count("\n| 1") == 3
    assert "| 2.0 | 2.0 × |" in text
    assert "- 100000-6-dense: training: took more than 6 GB" in text
    assert "to the power of **1.00**" in text
    assert len(text.split()) < 1_200
    assert ElementTree.parse(tmp_path / "ladder.svg").getroot().tag.endswith("svg")


def test_a_generated_kb_is_written_with_its_rules_beside_it(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("all.tsv", "train.tsv", "test.tsv")]
    size = ["--facts", "1000", "--predicates", "6"]
    done = CliRunner().invoke(app, ["kb", "generate", str(files[0]), *size])
    assert "acts_on(X,Y) :- targets(X,Z), member_of(Z,Y)" in done.stdout
    CliRunner().invoke(app, ["kb", "generate", str(files[1]), "--test", str(files[2]), *size])
    everything, train, test = (path.read_text().splitlines() for path in files)
    assert len(everything) == 1_000
    assert sorted(everything) == sorted([*train, *test])
    assert all(line.count("\t") == 2 for line in everything)


def test_the_command_lists_its_rungs() -> None:
    done = CliRunner().invoke(app, ["bench", "ladder", "--list", "--only", "1000-*-dense"])
    assert done.stdout.split() == ["1000-6-dense", "1000-25-dense", "1000-1000-dense"]
