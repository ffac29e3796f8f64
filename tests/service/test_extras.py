"""What `pip install ctp` alone can do, and what each extra adds, in a Python that sees no more than pip installs."""

import json
import sys
from collections.abc import Iterator

import pytest
import typer

from service.cli import app
from tests.installed import PACKAGES, ROOT, imported, modules, run_with
from tests.running import RunningService

BASE = ["ctp"]
CLIENT = {"ask", "train", "evaluate", "predict", "query", "rules", "kb", "jobs", "models", "settings"}
NEEDED = {
    "up": "all",
    "api": "service",
    "worker train": "worker",
    "dispatch": "service",
    "migrate": "service",
    "alive api": "service",
    "gc": "service",
    "keys create": "service",
    "keys list": "service",
    "keys revoke ctp_1": "service",
    "kb generate made.tsv": "service",
    "bench links --data . --dataset umls": "worker",
    "bench predictions --data . --dataset umls": "worker",
    "bench queries --data . --dataset umls": "worker",
    "bench inductive --data . --dataset kin": "worker",
    "bench clutrr --data . --dataset family": "worker",
    "bench paper --list": "worker",
    "bench ladder --list": "worker",
    "bench peers --data . --dataset umls": "worker",
    "bench scale": "all",
    "bench fair": "all",
    "bench serve": "all",
}
RUN = "from service.cli import main\nsys.argv[0] = 'ctp'\nmain()"
RUN_EACH = """
import contextlib, io
from service.cli import main

said = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        sys.argv = ["ctp", *words.split()]
        try:
            main()
        except SystemExit as end:
            said.append((end.code, stderr.getvalue()))
print(json.dumps(said))
"""
# Benchmarks measure the workers, so they need them; they are not part of the service.
MEASURES = {ROOT / f"service/commands/{name}.py" for name in ("bench", "fair", "paper", "peers", "scale")}


@pytest.mark.slow
def test_without_extras_the_terminal_says_what_to_install() -> None:
    done = run_with(BASE, RUN_EACH, json.dumps(list(NEEDED)))
    words = {"service": "the service", "worker": "the worker", "all": "the service and its workers"}
    lines = [f"ctp: this command needs {words[extra]}: pip install 'ctp[{extra}]'\n" for extra in NEEDED.values()]
    assert json.loads(done.stdout) == [[2, line] for line in lines], done.stderr


def test_every_command_works_without_extras_or_says_what_it_needs() -> None:
    """Commands of the client work, so they need no place in the list."""
    listed = {" ".join(words.split()[: 2 if words.split()[0] in ("bench", "keys", "kb") else 1]) for words in NEEDED}
    every = set(commands(typer.main.get_command(app)))
    assert {words for words in every if words.split()[0] not in CLIENT} <= listed <= every


def commands(command: object, words: tuple[str, ...] = ()) -> Iterator[str]:
    """The words of every command, those of groups included."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(words)
    else:
        for name, each in inner.items():
            yield from commands(each, (*words, name))


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["settings"], ["bench", "--help"], ["kb", "list", "--help"]]
)
def test_without_extras_the_terminal_tells_about_itself(words: list[str]) -> None:
    done = run_with(BASE, RUN, *words)
    assert (done.returncode, done.stderr) == (0, "")
    if words == ["--help"]:
        assert all(f" {name} " in done.stdout for name in ("up", "worker", "keys", "bench"))


@pytest.mark.slow
def test_torch_alone_does_not_make_a_worker() -> None:
    """It is in many notebooks."""
    done = run_with([*BASE, "torch"], RUN, "worker", "train")
    assert (done.returncode, done.stderr) == (2, "ctp: this command needs the worker: pip install 'ctp[worker]'\n")


@pytest.mark.slow
def test_without_extras_the_terminal_talks_to_a_service(service: RunningService) -> None:
    done = run_with(BASE, RUN, "kb", "list", "--url", service.url)
    assert "family" in done.stdout, done.stderr
    done = run_with(BASE, RUN, "models", "list", "--url", "http://127.0.0.1:1")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), "one line, no traceback"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "folders", "besides"),
    [
        ("service", ["service", "migrations"], set()),
        ("worker", ["worker", "ctp_core"], {"pykeen"}),  # with the extra `peers`
    ],
)
def test_an_extra_brings_every_package_that_is_imported(extra: str, folders: list[str], besides: set[str]) -> None:
    files = {file for folder in folders for file in (ROOT / folder).rglob("*.py")}
    files -= MEASURES | set((ROOT / "service/benchmarks").rglob("*.py"))
    needed = {name for file in files for name in imported(file)} - sys.stdlib_module_names - PACKAGES - besides
    assert needed - modules([f"ctp[{extra}]"]) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "started"),
    [
        ("service", ["service.app", "service.dispatch", "service.local.supervisor", "service.samples"]),
        ("worker", ["worker.app", "worker.tasks", "worker.child", "ctp_core.registry", "ctp_core.kb.formats.registry"]),
    ],
)
def test_an_extra_is_enough_to_start_its_processes(extra: str, started: list[str]) -> None:
    done = run_with(
        [f"ctp[{extra}]"],
        f"import os; os.environ['CTP_REDIS_URL'] = 'redis://127.0.0.1:1/0'\nimport {', '.join(started)}",
    )
    assert done.returncode == 0, done.stderr
