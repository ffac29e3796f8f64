"""Curves of training: their points, their ceiling and their settings."""

from dataclasses import replace

import pytest

from ctp_core.benchmarks.paper import dynamics
from ctp_core.kb.graphs import graphs_kb
from tests.core.benchmarks.paper.small_kbs import small


def test_a_curve_has_a_point_at_the_start_and_after_every_few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamics, "ITERATIONS", 5)
    monkeypatch.setattr(dynamics, "EVERY", 2)
    config, kb = small("ctp", **dynamics.settings("ours"), batch_size=32)
    points = dynamics.curve(config, kb)
    assert [iteration for iteration, _ in points] == [0, 2, 4]
    assert all(0 <= share <= 1 for _, share in points)
    assert points[-1][1] > points[0][1]


def test_nobody_reaches_more_than_the_commonest_label_of_every_graph() -> None:
    _, kb = small("ctp")
    once = dynamics.ceiling(kb)
    graph = kb.splits["train"][0]
    other = next(name for name in kb.targets if name != graph.label)
    twice = graphs_kb({"train": [*kb.splits["train"], replace(graph, label=other)]})
    assert dynamics.ceiling(twice) < once <= 1


def test_the_deep_curves_differ_from_the_published_settings_in_training_alone() -> None:
    plain, deep = dynamics.settings("ctp-linear"), dynamics.settings("ctp-linear-deep")
    assert {name for name in deep if deep[name] != plain.get(name)} == {
        "train_depth",
        "optimiser",
        "learning_rate",
        "memory",
    }
