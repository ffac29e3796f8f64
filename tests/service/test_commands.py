"""The client commands of `ctp`, run as a user runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from ctp_client import Client
from ctp_client.kbs import format_of
from ctp_client.types import Answer, Answers, Fact, Node, Unification
from ctp_core import __version__
from ctp_core.kb.formats.registry import FORMATS
from service.commands.bench import parsed
from service.commands.console import OLDER, in_commands, printable
from service.commands.query import parse_goal, print_answers, proof_tree
from tests.running import RunningService


def ctp(service: RunningService, *words: str, code: int = 0) -> str:
    """What `ctp words…` prints; on failure what it says on stderr."""
    command = [sys.executable, "-m", "service.cli", *words, "--url", service.url]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@pytest.fixture(scope="module")
def trained(service: RunningService) -> RunningService:
    assert "command-family@1 is ready" in ctp(service, "train", "family", "--name", "command-family")
    return service


@pytest.mark.slow
def test_a_kb_goes_in_and_can_be_looked_at(service: RunningService, tmp_path: Path) -> None:
    file = tmp_path / "kb.tsv"
    file.write_text("a\tp\tb\nb\tp\t\x1b[31mred\n")
    assert "2 facts, 3 entities, 1 predicates" in ctp(service, "kb", "upload", "command-kb", str(file))
    assert "command-kb" in ctp(service, "kb", "list")
    shown = ctp(service, "kb", "facts", "command-kb", "--subject", "b")
    assert "\\x1b[31mred" in shown, "an escape sequence of the KB must not reach the terminal"
    facts = json.loads(ctp(service, "kb", "facts", "command-kb", "--json"))
    assert facts[1]["object"] == "\x1b[31mred", "scripts get the name itself"
    ctp(service, "kb", "delete", "command-kb")
    assert "there is no KB" in ctp(service, "kb", "show", "command-kb", code=1)


@pytest.mark.slow
def test_a_bad_line_is_told_with_its_number(service: RunningService, tmp_path: Path) -> None:
    file = tmp_path / "bad.tsv"
    file.write_text("a\tp\tb\nhalf\n")
    assert "bad.tsv, line 2" in ctp(service, "kb", "upload", "command-bad", str(file), code=1)


def test_what_was_ignored_of_a_question_is_said_before_its_answers(capsys: pytest.CaptureFixture[str]) -> None:
    print_answers(Answers(model_id="model_1", elapsed_ms=1.0, answers=[], warnings=["predicate 'p[red]' is unknown"]))
    warning, answer = capsys.readouterr().out.splitlines()
    assert warning == "! predicate 'p[red]' is unknown"
    assert answer == "no answer"


@pytest.mark.parametrize(("scoring", "told"), [("evidence", True), ("best_proof", False), ("no_proofs", False)])
def test_a_known_answer_is_told_to_rest_on_other_facts_where_evidence_adds_up(
    capsys: pytest.CaptureFixture[str], scoring: str, told: bool
) -> None:
    known = Answer(subject="a", predicate="p", object="b", score=0.9, rank=1, known=True, proofs=[])
    print_answers(Answers(model_id="model_1", elapsed_ms=1.0, answers=[known], scoring=scoring))
    assert ("how well the other facts support it" in capsys.readouterr().out) == told


@pytest.mark.slow
def test_a_question_is_answered_with_a_tree_that_marks_the_weakest_link(trained: RunningService) -> None:
    printed = ctp(trained, "query", "command-family", "grandparent(?, morty)", "--top", "3")
    assert "by grandparent(X,Y) :- parent(X,Z), parent(Z,Y)" in printed
    assert printed.count("← weakest link") == 1
    answers = json.loads(ctp(trained, "query", "command-family", "grandparent(?, morty)", "--json"))["answers"]
    assert answers[0]["object"] == "morty"


@pytest.mark.slow
def test_rules_models_and_jobs_are_listed(trained: RunningService) -> None:
    assert "grandparent(X,Y) :- parent(X,Z), parent(Z,Y)" in ctp(trained, "rules", "command-family")
    assert ctp(trained, "rules", "command-family", "--prolog", "--limit", "1").endswith(".\n")
    assert "command-family@1" in ctp(trained, "models", "list", "command-family")
    model = json.loads(ctp(trained, "models", "show", "command-family", "--json"))
    job = json.loads(ctp(trained, "jobs", "show", model["lineage"]["job_id"], "--json"))
    assert job["status"] == "succeeded"
    assert job["id"] in ctp(trained, "jobs", "list")


@pytest.mark.slow
def test_a_model_without_proofs_says_so_and_is_listed_with_its_kb(service: RunningService) -> None:
    for name, *settings in (("command-mute", "method=distmult"), ("command-static", "method=ntp")):
        words = [word for setting in (*settings, "epochs=1") for word in ("--set", setting)]
        ctp(service, "train", "family", "--name", name, *words)
    assert "this model answers without proofs" in ctp(service, "query", "command-mute", "grandparent(?, morty)")
    assert "without proofs" not in ctp(service, "query", "command-static", "grandparent(?, morty)")
    assert "answers without proofs" in ctp(service, "models", "show", "command-mute")
    listed = ctp(service, "models", "list", "command-static").splitlines()[1].split()
    assert listed[:5] == ["command-static@1", "ready", "family", "ctp", "ntp"]


@pytest.mark.slow
def test_what_can_be_trained_on_a_kb_is_shown(service: RunningService) -> None:
    shown = ctp(service, "kb", "presets", "family")
    assert [line.split() for line in shown.splitlines()[:2]] == [
        ["fast", "best", "paper", "paper-long"],
        ["method", "proofs", "hybrid", "ctp", "ctp"],
    ]
    assert "distmult" in shown
    assert "embedding.rank" in ctp(service, "kb", "presets", "family", "--method", "hybrid")
    assert "--method: there is no such method" in ctp(service, "kb", "presets", "family", "--method", "x", code=1)
    assert "embedding.rank" in ctp(service, "kb", "presets", "family", "--explain")  # of several methods
    explained = ctp(service, "kb", "presets", "family", "--method", "complex", "--explain")
    assert "Pressure towards short vectors" in [line for line in explained.splitlines() if line.startswith("n3 ")][-1]


@pytest.mark.slow
def test_what_was_tried_is_shown_with_the_model(service: RunningService) -> None:
    words = ("--name", "command-tried", "--set", "method=complex", "--set", "budget_seconds=2")
    ctp(service, "train", "nations", *words)
    shown = ctp(service, "models", "show", "command-tried").partition("what was tried on this KB")[2].splitlines()
    assert shown[1].split()[0] == "tried"
    assert "mrr" in shown[1]
    assert any(line.split()[-1] == "chosen" for line in shown[2:] if line)


@pytest.mark.slow
def test_a_list_that_is_cut_says_so(service: RunningService) -> None:
    for _ in range(2):
        ctp(service, "train", "family", "--name", "command-list", "--set", "epochs=1")
    for words in (("jobs", "list"), ("models", "list", "command-list")):
        assert OLDER in ctp(service, *words, "--limit", "1")
        assert OLDER not in ctp(service, *words, "--limit", "500")


@pytest.mark.parametrize(("score", "marked"), [(1.0, False), (0.9999, False), (0.998, True)])
def test_a_link_that_reads_as_certain_is_not_called_weak(score: float, marked: bool) -> None:
    fact = Fact(subject="a", predicate="p", object="b")
    tree = proof_tree(
        Node(goal=fact, score=score, by="fact", unifications=[Unification(left="p", right="p", score=score)])
    )
    assert ("weakest link" in str(tree.label)) is marked


def test_advice_is_in_the_words_of_the_commands() -> None:
    assert in_commands("name 2 to 10 models in `ids`, separated by commas") == "name 2 to 10 models to compare"
    assert in_commands("give the facts of the graph in `facts`") == "give the facts of the graph with --fact"


@pytest.mark.slow
def test_a_running_job_is_listed_cancelled_and_watched_to_its_end(service: RunningService) -> None:
    job = ctp(service, "train", "kinship", "--name", "command-long", "--set", "epochs=5000", "--detach").strip()
    assert "cancelled" in ctp(service, "jobs", "cancel", job)
    assert "cancelled" in ctp(service, "jobs", "watch", job, code=1)
    assert json.loads(ctp(service, "models", "show", "command-long@1", "--json"))["status"] == "cancelled"


@pytest.mark.slow
def test_an_exported_model_answers_again_where_it_is_imported(trained: RunningService, tmp_path: Path) -> None:
    archive = str(tmp_path / "family.ctp")
    ctp(trained, "models", "alias", "command-family@1", "champion")
    ctp(trained, "models", "export", "command-family@champion", archive)
    assert "command-copy@1 ready" in ctp(trained, "models", "import", archive, "--name", "command-copy")
    question = ("grandparent(?, morty)", "--top", "3")
    assert ctp(trained, "query", "command-copy", *question) == ctp(trained, "query", "command-family", *question)


def test_a_goal_is_read_as_prolog_with_a_question_mark() -> None:
    assert parse_goal("grandparent(?, morty)") == (None, "grandparent", "morty")
    assert parse_goal(" has part ( left arm , _ ).") == ("left arm", "has part", None)
    with pytest.raises(typer.BadParameter):
        parse_goal("grandparent")


@pytest.mark.parametrize("text", ["{epochs: 3}", "[3]", "3"])
def test_settings_of_a_benchmark_that_are_no_object_are_refused(text: str) -> None:
    assert parsed('{"epochs": 3}') == {"epochs": 3}
    with pytest.raises(typer.BadParameter, match="--config"):
        parsed(text)


def test_names_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[2J\u202eb\r") == "a\\x1b[2J\\u202eb\\r"
    assert printable("Zoë – 東京") == "Zoë – 東京"


@pytest.mark.slow
def test_mistakes_are_told_in_the_words_of_commands(trained: RunningService) -> None:
    missing = ctp(trained, "kb", "show", "famly", code=1)
    assert missing == "ctp: there is no KB 'famly' (did you mean 'family'?): `ctp kb list` lists your KBs\n"
    unknown = ctp(trained, "train", "family", "--name", "x", "--set", "epohcs=3", code=1)
    assert unknown == "ctp: --set epohcs: there is no such setting (did you mean 'epochs' or 'steps'?)\n"
    variable = ctp(trained, "query", "command-family", "grandparent(rick, Y)", code=1)
    assert "write ? instead of Y for the place asked for" in variable


@pytest.mark.slow
def test_weak_answers_are_shown_on_demand(trained: RunningService) -> None:
    answers = json.loads(ctp(trained, "query", "command-family", "grandparent(?, morty)", "--json"))["answers"]
    weak = sum(answer["score"] < 0.1 for answer in answers)
    assert len(answers) == 10
    assert 0 < weak < 10
    words = ("query", "command-family", "grandparent(?, morty)")
    some, every = ctp(trained, *words), ctp(trained, *words, "--all")
    assert f"and {weak} more below 0.1: --all shows them" in some
    assert some.count("grandparent(") == every.count("grandparent(") - weak


@pytest.mark.slow
def test_a_question_may_leave_out_what_is_known_or_go_to_another_kb(trained: RunningService) -> None:
    words = ("query", "command-family", "parent(rick, ?)", "--json")
    assert [answer["known"] for answer in json.loads(ctp(trained, *words))["answers"]].count(True) > 0
    assert not any(answer["known"] for answer in json.loads(ctp(trained, *words, "--new"))["answers"])
    assert "depth" in ctp(trained, *words, "--depth", "1001", code=1)
    assert "there is no KB" in ctp(trained, *words, "--kb", "nowhere", code=1)


@pytest.mark.slow
def test_jobs_are_listed_by_the_model_they_fill(trained: RunningService) -> None:
    assert "command-family@1" in ctp(trained, "jobs", "list")


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "first"), [("csv", "subject,predicate,object"), ("tsv", "\t"), ("pl", "(")])
def test_an_export_is_in_the_format_of_the_files_suffix(
    service: RunningService, tmp_path: Path, suffix: str, first: str
) -> None:
    file = tmp_path / f"out.{suffix}"
    ctp(service, "kb", "export", "family", str(file))
    assert first in file.read_text().splitlines()[0]
    assert list(tmp_path.iterdir()) == [file]


def exported(service: RunningService, *words: str, code: int = 0) -> str:
    """What `ctp kb export words…` says on stderr."""
    command = [sys.executable, "-m", "service.cli", "kb", "export", *words, "--url", service.url]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stderr


@pytest.mark.slow
def test_an_export_to_a_folder_keeps_the_splits_apart_and_can_be_uploaded_again(
    service: RunningService, tmp_path: Path
) -> None:
    exported(service, "nations", str(tmp_path))
    names = ["test", "train", "valid"]
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"{name}.tsv" for name in names]
    files = [word for name in names for word in (f"--{name}", str(tmp_path / f"{name}.tsv"))]
    again = json.loads(ctp(service, "kb", "upload", "command-nations", *files, "--json"))
    original = json.loads(ctp(service, "kb", "show", "nations", "--json"))
    assert (again["splits"], again["sha256"]) == (original["splits"], original["sha256"])


@pytest.mark.slow
def test_an_export_to_one_file_says_that_it_joins_the_splits(service: RunningService, tmp_path: Path) -> None:
    file = tmp_path / "all.tsv"
    assert "train, valid, test one after the other" in exported(service, "nations", str(file))
    said = exported(service, "nations", str(tmp_path / "test.csv"), "--split", "test")
    assert "one after the other" not in said
    splits = json.loads(ctp(service, "kb", "show", "nations", "--json"))["splits"]
    assert len(file.read_text().splitlines()) == sum(splits.values())
    assert len((tmp_path / "test.csv").read_text().splitlines()) == splits["test"] + 1  # and the header


@pytest.mark.slow
def test_a_suffix_that_no_format_has_is_refused_unless_the_format_is_named(
    service: RunningService, tmp_path: Path
) -> None:
    file = tmp_path / "kb.xlsx"
    assert "kb.xlsx: no format ends in .xlsx: name the format, or use .tsv" in exported(
        service, "family", str(file), code=1
    )
    assert not file.exists()
    exported(service, "family", str(file), "--format", "csv")
    assert file.read_text().startswith("subject,predicate,object")


@pytest.mark.slow
def test_the_version_is_told() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "service.cli", "--version"], check=True, capture_output=True, text=True
    )
    assert told.stdout == f"ctp {__version__}\n"


@pytest.mark.slow
def test_a_training_of_several_seeds_says_which_was_kept(service: RunningService) -> None:
    words = ("--name", "command-seeds", "--seed", "3", "--seed", "4", "--set", "epochs=2")
    said = ctp(service, "train", "family", *words)
    kept = json.loads(ctp(service, "models", "show", "command-seeds@1", "--json"))["lineage"]["seed"]
    assert kept in (3, 4)
    assert f"command-seeds@1 is ready with seed {kept}, the best of 3, 4" in said


@pytest.mark.slow
def test_a_bare_name_is_asked_about_before_anything_is_deleted(trained: RunningService) -> None:
    ctp(trained, "train", "family", "--name", "command-twice")
    assert "Delete command-twice@1, the newest version" in ctp_asked(trained, "n", "models", "delete", "command-twice")
    assert "command-twice@1" in ctp(trained, "models", "list", "command-twice")
    ctp_asked(trained, "y", "models", "delete", "command-twice")
    assert "command-twice@1" not in ctp(trained, "models", "list", "command-twice")


def ctp_asked(service: RunningService, answer: str, *words: str) -> str:
    """What `ctp words…` prints when it is answered so."""
    command = [sys.executable, "-m", "service.cli", *words, "--url", service.url]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, input=f"{answer}\n")
    return done.stdout + done.stderr


@pytest.mark.slow
def test_every_suffix_that_is_read_is_written(service: RunningService) -> None:
    with Client(service.url) as client:
        formats = client.kbs.formats()
    assert [f.name for f in formats] == list(FORMATS)
    for known in FORMATS.values():
        if known.kind == "facts":
            assert {format_of(Path(f"kb{s}"), None, lambda: formats) for s in known.suffixes} == {known.name}
    assert "upload only" in ctp(service, "kb", "formats")
