"""docs/tutorial.md, run as it stands."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.running import RunningService

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(sh|python|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A block to run, and the lines that must be in what it prints, in this order."""

    language: str
    code: str
    output: list[str]


def steps() -> list[Step]:
    blocks = BLOCK.findall(TUTORIAL.read_text())
    following = [*blocks[1:], ("", "")]
    return [
        Step(language, code, after[1].splitlines() if after[0] == "output" else [])
        for (language, code), after in zip(blocks, following, strict=True)
        if language != "output"
    ]


def shape(line: str) -> str:
    """A line without what may differ from machine to machine: the digits of numbers, and spacing."""
    return " ".join(re.sub(r"\d[\d.,]*", "#", line).split())


@pytest.mark.slow
def test_the_tutorial_does_what_it_says(service: RunningService, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ctp").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m service.cli "$@"\n')
    (programs / "ctp").chmod(0o755)
    environment = os.environ | {
        "CTP_URL": service.url,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    for step in steps():
        command = ["bash", "-e", "-o", "pipefail", "-c", step.code]
        if step.language == "python":
            command = [sys.executable, "-c", step.code]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, f"{step.code}\n{done.stderr}"
        printed = iter([shape(line) for line in done.stdout.splitlines()])
        for line in step.output:
            # `in` takes from the iterator, so that the lines must come in this order.
            assert any(shape(line) in each for each in printed), f"{step.code}\nshould print {line!r}:\n{done.stdout}"


def test_every_command_group_of_the_client_is_in_the_tutorial() -> None:
    text = TUTORIAL.read_text()
    assert all(f"ctp {word} " in text for word in ("kb", "train", "query", "rules", "models"))
