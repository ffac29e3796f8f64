"""Documents that must not lag behind the code."""

import re
import subprocess
from pathlib import Path

import pytest

from service.settings import Settings, settings_table

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
RESULTS = sorted((ROOT / "docs" / "results").glob("*.md"))
MOST_WORDS = 1200  # of a page of results: figures, commands and commits; how they were found is in docs/lab
# Anywhere a path or "decision" and a number; in the decisions themselves also "(number)" and "see number".
REFERENCE = re.compile(r"decisions?[/ ](\d{4})(-[a-z0-9-]+\.md)?")
SHORT_REFERENCE = re.compile(r"(?:\(|see )(\d{4})(?=[).,;])")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def numbers() -> dict[str, str]:
    """The file of each decision by its number."""
    return {path.name[:4]: path.name for path in sorted(DECISIONS.glob("[0-9]*.md"))}


def test_the_readme_lists_every_setting() -> None:
    assert settings_table() in (ROOT / "README.md").read_text(), "paste the output of `ctp settings` into README.md"


def test_every_setting_with_a_number_says_its_range_and_what_more_of_it_does() -> None:
    fields = Settings.model_fields.items()
    numbers = {name: field.description or "" for name, field in fields if field.annotation in (int, float)}
    ranges = re.compile(r"\d to \d|at least|at most|above \d|from 0|0:|must exceed", re.IGNORECASE)
    effects = re.compile(r"\b(more|larger|higher|longer)\b", re.IGNORECASE)
    assert [name for name, text in numbers.items() if not ranges.search(text)] == []
    assert [name for name, text in numbers.items() if name != "port" and not effects.search(text)] == []


def test_every_make_target_has_a_line_of_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    helped = set(re.findall(r"^([a-z-]+):.*## .+$", makefile, re.MULTILINE))
    assert helped == set(phony.group(1).split())


def test_decisions_are_numbered_one_after_the_other() -> None:
    names = [path.name for path in sorted(DECISIONS.glob("*.md")) if path.name != "README.md"]
    assert [name[:5] for name in names] == [f"{number:04d}-" for number in range(1, len(names) + 1)]
    for number, name in numbers().items():
        assert (DECISIONS / name).read_text().startswith(f"# {int(number)}. "), (
            f"{name} bears another number in its title"
        )


def test_every_decision_is_in_the_index() -> None:
    listed = re.findall(
        r"^\| \[(\d{4})\]\(([^)]+)\) \| .+ \| .+ \|$", (DECISIONS / "README.md").read_text(), re.MULTILINE
    )
    assert listed == list(numbers().items())


def test_every_reference_to_a_decision_leads_to_one() -> None:
    files = numbers()
    for path in tracked("*.py", "*.md", "*.toml", "*.js"):
        text = path.read_text()
        found = REFERENCE.findall(text)
        if path.parent == DECISIONS:
            found += [(number, "") for number in SHORT_REFERENCE.findall(text)]
        for number, rest in found:
            assert number in files, f"{path.relative_to(ROOT)} names decision {number}, which does not exist"
            assert rest in ("", files[number][4:]), f"{path.relative_to(ROOT)}: decision {number} is {files[number]}"


def test_every_link_between_documents_leads_to_a_file() -> None:
    for path in tracked("*.md"):
        for target in LINK.findall(path.read_text()):
            assert (path.parent / target).exists(), f"{path.relative_to(ROOT)} links to {target}, which does not exist"


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.name)
def test_a_page_of_results_is_short_and_says_where_its_figures_come_from(page: Path) -> None:
    text = page.read_text()
    assert len(text.split()) <= MOST_WORDS, f"{page.name}: move how figures were found to docs/lab/{page.name}"
    assert "ctp bench " in text, f"{page.name} has no command"
    assert re.search(r"`[0-9a-f]{7,40}`", text), f"{page.name} names no commit"
    assert (ROOT / "docs" / "lab" / page.name).exists()
