"""docs/guides/tutorial.md, run as it stands."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.running import RunningService

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "guides" / "tutorial.md"
LEFT_OUT = "…"
BLOCK = re.compile(r"^```(sh|python|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A block to run, and what it prints, or None where the page does not show it."""

    language: str
    code: str
    output: str | None


def steps() -> list[Step]:
    blocks = BLOCK.findall(TUTORIAL.read_text())
    following = [*blocks[1:], ("", "")]
    return [
        Step(language, code, after[1] if after[0] == "output" else None)
        for (language, code), after in zip(blocks, following, strict=True)
        if language != "output"
    ]


def shapes(text: str) -> list[str]:
    """Its lines without what may differ from machine to machine: the digits of numbers, and spacing."""
    lines = (" ".join(re.sub(r"\d[\d.,]*", "#", line).split()) for line in text.splitlines())
    return [line for line in lines if line]


def shows(shown: str, printed: str) -> bool:
    """Whether the page shows what was printed, line by line, but for those that it says are left out."""
    parts = (r"(.*\n)*" if line == LEFT_OUT else re.escape(line) + r"\n" for line in shapes(shown))
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in shapes(printed))) is not None


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
        # In a terminal, what goes to stderr stands between what goes to stdout.
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, cwd=tmp_path, env=environment, text=True, timeout=180, check=False, **pipes)
        assert done.returncode == 0, f"{step.code}\n{done.stdout}"
        if step.output is not None:
            assert shows(step.output, done.stdout), (
                f"{step.code}\nshould print\n{step.output}\nand prints\n{done.stdout}"
            )


def test_an_excerpt_has_to_say_that_it_is_one() -> None:
    assert shows("a 1.25\n…\nd\n", "\na 3\nb\nc\nd\n")
    assert not shows("a\nd\n", "a\nb\nd\n")
    assert not shows("a\n", "a\nb\n")
    assert not shows("…\na\nb\n", "a\nb\nc\n")


def test_every_command_group_of_the_client_is_in_the_tutorial() -> None:
    text = TUTORIAL.read_text()
    assert all(f"ctp {word} " in text for word in ("kb", "train", "query", "rules", "models"))
