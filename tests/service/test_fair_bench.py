"""`ctp bench fair` with its smallest settings: what it finds depends on the machine, that it finds it does not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from service.benchmarks.fair import grown, missed

FINE = {
    "query_p99_ms": 40.0,
    "query_not_200": {},
    "healthz_p99_ms": 10.0,
    "answers_500": 0,
    "jobs_failed": 0,
    "leases_lost": 0,
}


@pytest.mark.slow
def test_the_benchmark_of_fairness_measures_a_load(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    words = ["bench", "fair", "--only", "tiny_facts", "--seconds", "1", "--after", "0", "--json", str(file)]
    done = subprocess.run([sys.executable, "-m", "service.cli", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    idle, load = json.loads(file.read_text())["rows"]
    assert (idle["load"], load["load"]) == ("idle", "tiny_facts")
    assert idle["query_p99_ms"] >= idle["query_p50_ms"] > 0
    assert load["query_not_200"] == {}
    assert load["answers_500"] == load["jobs_failed"] == 0
    for part in ("api", "query", "dispatch"):
        assert load["memory_peak_mb"][part] > 20
        assert load["memory_bound_mb"][part] > load["memory_before_mb"][part] > 20
    assert "tiny_facts" in done.stdout


@pytest.mark.slow
def test_a_wrong_load_lists_all() -> None:
    words = ["bench", "fair", "--only", "hubs"]
    done = subprocess.run([sys.executable, "-m", "service.cli", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no load hubs" in done.stderr
    assert "slow_on_two" in done.stderr


@pytest.mark.parametrize(
    ("change", "goal"),
    [
        ({}, []),
        ({"query_p99_ms": 249.0}, []),
        ({"query_p99_ms": 251.0}, ["query p99"]),
        ({"query_p99_ms": None, "query_not_200": {"503": 3}}, ["query p99", "query not 200"]),
        ({"healthz_p99_ms": 251.0}, ["healthz p99"]),
        ({"answers_500": 1}, ["500"]),
        ({"leases_lost": 1}, ["jobs"]),
        ({"memory_after_mb": {"api": 125.0, "query": 700.0}}, ["memory of api"]),
        ({"memory_peak_mb": {"api": 500.0}, "memory_bound_mb": {"api": 400.0}}, ["most memory of api"]),
    ],
)
def test_a_goal_that_is_missed_is_named(change: dict[str, object], goal: list[str]) -> None:
    assert missed(FINE | change, FINE, {"api": 100.0, "query": 600.0}) == goal


def test_a_slow_machine_is_measured_by_its_own_pace() -> None:
    assert missed(FINE | {"query_p99_ms": 900.0}, FINE | {"query_p99_ms": 200.0}, {}) == []


def test_a_machine_that_has_become_slow_is_measured_by_its_pace_just_before_the_load() -> None:
    assert missed(FINE | {"query_p99_ms": 900.0, "calm_query_p99_ms": 200.0}, FINE, {}) == []


def test_a_fifth_more_memory_may_be_kept() -> None:
    assert grown({"api": 120.0}, {"api": 100.0}) == []
    assert grown({"api": 120.1}, {"api": 100.0}) == ["api"]
