"""A comparison as a terminal shows it."""

from copy import deepcopy
from typing import Any

import pytest

from service.commands import comparison
from service.models.schemas import EXAMPLE_COMPARISON

COLUMNS = 80


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(comparison.out, "width", COLUMNS)
    return deepcopy(EXAMPLE_COMPARISON)


def printed(found: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> list[str]:
    comparison.print_comparison(found)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= COLUMNS
    return lines


def test_who_is_better_is_said_in_words_at_the_end(found: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    more = "the test split has 240 questions: --questions asks more"
    said = "embedding@1: 88 of 100 right, 9 fewer than family@1: may be chance (p = 0.022)"
    assert printed(found, capsys)[-2:] == [said, more]
    found["contest"]["groups"][0]["p_values"][1] = 0.004
    assert "hardly chance (p = 0.004)" in " ".join(printed(found, capsys)[-3:])
    found["contest"] |= {"num_available": 100}
    found["contest"]["groups"][0] |= {"right": [0.9, 0.9], "p_values": [None, 1.0]}
    assert printed(found, capsys)[-1] == "embedding@1: 90 of 100 right, as many as family@1"


def test_where_they_differ_the_question_stands_with_its_facts_and_the_rest_is_offered(
    found: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    [row] = found["contest"]["disagreements"]
    row["facts"] = [["rick", "parent", "beth"], ["beth", "parent", "morty"]]
    lines = printed(found, capsys)
    at = lines.index("questions where they differ: 14, 1 of them here: --disagreements shows more")
    assert lines[at + 1 : at + 6] == [
        "",
        "grandparent(rick, ?)  right: grandparent(rick, morty)",
        "  given parent(rick, beth), parent(beth, morty)",
        "  family@1: grandparent(rick, morty) 0.980 (right)",
        "    grandparent(rick, morty) ⇐ parent(rick, beth), parent(beth, morty)",
    ]


def test_many_versions_have_letters_and_a_legend(found: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    family, embedding = found["models"]
    found["models"] = [family, *({**embedding, "version": version} for version in range(1, 6))]
    for row in found["config"] + found["metrics"]:
        row["values"] = row["values"][:1] + row["values"][1:] * 5
    found["num_rules"] = [12, 0, 0, 0, 0, 0]
    found["contest"] = None
    lines = printed(found, capsys)
    assert "F  embedding@5" in lines
    assert any(line.split() == ["mrr", "0.97"] + ["0.91"] * 5 for line in lines)


def test_settings_that_only_one_has_are_no_column_of_dashes(
    found: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    found["models"][0]["config"]["members"] = 2
    found["models"][1]["config"]["embedding"] = {"method": "complex"}
    found["config"] += [{"name": "members", "values": [2, None]}, {"name": "embedding.rank", "values": [None, 0.5]}]
    lines = printed(found, capsys)
    assert "family@1 alone has members 2" in lines
    assert "embedding@1 alone has embedding.rank 0.5" in lines
