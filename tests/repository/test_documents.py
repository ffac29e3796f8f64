"""Documents that must not lag behind the code."""

import re
from pathlib import Path

from service.settings import settings_table

ROOT = Path(__file__).parents[2]


def test_the_readme_lists_every_setting() -> None:
    assert settings_table() in (ROOT / "README.md").read_text(), "paste the output of `ctp settings` into README.md"


def test_every_make_target_has_a_line_of_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    helped = set(re.findall(r"^([a-z-]+):.*## .+$", makefile, re.MULTILINE))
    assert helped == set(phony.group(1).split())
