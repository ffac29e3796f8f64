"""Codes of problems are for programs: each is named in a test, so that none changes or dies unnoticed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from service import errors
from service.errors import ServiceError

ROOT = Path(__file__).parents[2]
RAISED = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, ServiceError)}
# Who is called with a code -> its place among the arguments.
# Of commands that need no service.
BY_THE_TERMINAL = {"bad_role", "bad_url", "key_not_found"}
PLACES = {**dict.fromkeys(RAISED, 0), "not_found": 0, "problem": 2, "_fail": 1}


def codes_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            place = PLACES.get(ast.unparse(node.func).rpartition(".")[2])
            given = node.args[place] if place is not None and place < len(node.args) else None
            if isinstance(given, ast.Constant) and isinstance(given.value, str):
                yield given.value


def codes() -> list[str]:
    modules = [path for package in ("service", "worker") for path in (ROOT / package).rglob("*.py")]
    return sorted({code for path in modules for code in codes_in(path)})


def raised_codes() -> Iterator[tuple[int, str]]:
    """(status, code) of the errors that calls are answered with, as far as both are written where they are raised."""
    for path in (ROOT / "service").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
            if name in RAISED and isinstance(node, ast.Call) and node.args:
                given = node.args[0]
                if isinstance(given, ast.Constant) and given.value not in BY_THE_TERMINAL:
                    yield getattr(errors, name).status, str(given.value)


@pytest.fixture(scope="module")
def tests() -> str:
    return "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize("code", codes())
def test_a_code_is_named_in_a_test(tests: str, code: str) -> None:
    assert f'"{code}"' in tests


def test_codes_of_every_kind_are_found() -> None:
    assert {"kb_not_found", "internal_error", "training_crashed", "body_too_slow"} <= set(codes())
