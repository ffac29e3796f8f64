"""A Python that can import only some of the installed packages, as after `pip install` of an extra."""

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterable
from importlib.metadata import packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
OURS = "ctp"
PACKAGES = {"ctp_client", "ctp_core", "migrations", "service", "worker"}
HIDE = """
import json, sys

hidden = set(json.loads(sys.argv.pop(1)))

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
"""


def run_with(
    requirements: Iterable[str], code: str, *words: str, hidden: Collection[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Runs `code` with the arguments `words`; it sees what pip installs for `requirements`, and our own packages.

    `hidden` names modules of ours that it does not see either.
    """
    unseen = packages_distributions().keys() - modules(requirements) - PACKAGES
    command = [sys.executable, "-c", HIDE + code, json.dumps([*unseen, *hidden]), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def modules(requirements: Iterable[str]) -> set[str]:
    """The packages that can be imported once pip has installed `requirements`."""
    installed = distributions(requirements)
    owners = packages_distributions().items()
    return {module for module, names in owners if installed & {canonicalize_name(name) for name in names}}


def distributions(requirements: Iterable[str]) -> set[str]:
    """The names of all packages that pip installs for `requirements`."""
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        for extra in {"", *wanted.extras} - {extra for known, extra in found if known == name}:
            found.add((name, extra))
            texts = declared(extra) if name == OURS else requires(name) or []
            needed = map(Requirement, texts)
            waiting += [n for n in needed if n.marker is None or n.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


def declared(extra: str) -> list[str]:
    """What pyproject.toml says: installed metadata may be older."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed: list[str] = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return listed


def imported(path: Path) -> set[str]:
    """The packages that a module imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}
