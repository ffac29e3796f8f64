"""Training on one family and answering about another, from files in the published layout."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ctp_core.benchmarks.inductive import InductiveRun, hits_among, run
from ctp_core.errors import DataError
from service.cli import app
from tests.core.frontier.families import family_kb

FIGURES = {"mrr", "hits@10", "hits@10_of_50", "train_cpu_seconds", "rank_triple_cpu_ms"}
BRIEF = {"steps": 3, "dim": 16, "epochs": 3, "batch_size": 16, "learning_rate": 0.01, "search": []}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for world, name in ((1, "kin"), (2, "kin_ind")):
        (tmp_path / name).mkdir()
        kb = family_kb(world)
        for split in kb.splits:
            lines = ("\t".join(fact) for fact in kb.facts(split))
            (tmp_path / name / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_a_sure_first_rank_is_always_a_hit_and_a_last_one_never() -> None:
    found = hits_among(np.array([1.0, 101.0, 21.0]), np.array([100, 100, 100]))
    assert found[:2].tolist() == [1.0, 0.0]
    assert found[2] == pytest.approx(0.4437, abs=1e-3)  # ten expected above: at most nine of 50 draws at .2


def test_one_wrong_answer_is_drawn_with_the_share_of_those_above() -> None:
    assert hits_among(np.array([26.0]), np.array([100]), wrong=1, hits=1) == pytest.approx(0.75)


@pytest.mark.slow
def test_strangers_are_ranked_by_a_model_of_another_family(data: Path, tmp_path: Path) -> None:
    arguments = ["bench", "inductive", "--data", str(data), "--dataset", "kin", "--seeds", "2", "--config"]
    result = CliRunner().invoke(app, [*arguments, json.dumps(BRIEF), "--json", str(tmp_path / "figures.json")])
    assert result.exit_code == 0, result.output
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["seeds"] == [0, 1]
    assert figures.keys() >= FIGURES
    assert all(len(figures[name]) == 2 for name in FIGURES)
    assert min(figures["hits@10_of_50"]) > 0.8  # chance is a fifth
    assert all(0 < value <= 1 for value in figures["mrr"])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rules", "hybrid"])
def test_other_methods_that_learn_rules_are_measured_too(data: Path, method: str) -> None:
    rules = {"sample": 50, "steps": 20, "search": []}
    brief = rules if method == "rules" else {"epochs": 3, "proofs": {"method": "rules", **rules}}
    figures = run(InductiveRun(data, "kin", method, settings=brief))
    assert figures["hits@10_of_50"][0] > 0.5


def test_a_data_set_without_its_other_kb_is_refused(data: Path) -> None:
    with pytest.raises(DataError, match="'kin_ind_ind' is unknown"):
        run(InductiveRun(data, "kin_ind", "frontier"))
    with pytest.raises(DataError, match="no split 'tested'"):
        run(InductiveRun(data, "kin", "frontier", split="tested"))


@pytest.mark.slow
def test_a_method_that_knows_its_entities_by_name_is_refused(data: Path) -> None:
    result = CliRunner().invoke(
        app,
        [
            "bench",
            "inductive",
            "--data",
            str(data),
            "--dataset",
            "kin",
            "--model",
            "complex",
            "--config",
            '{"epochs": 1, "search": []}',
        ],
    )
    assert result.exit_code != 0
    assert "answers only on the KB it was trained on" in str(result.exception or result.output)
