"""The Python client against the started service."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from pydantic import BaseModel

from ctp_client import ApiError, Client, FactRow, Job, Kb, Model, Rule, Symbol, Unreachable
from ctp_client.events import parse
from service.local.cluster import free_port
from tests.running import RunningService


@pytest.fixture(scope="module")
def api(service: RunningService) -> Iterator[Client]:
    with Client(service.url) as client:
        yield client


@pytest.fixture(scope="module")
def trained(api: Client) -> Client:
    training = api.train("family", name="client-family")
    assert api.jobs.wait(training.job.id, 120).status == "succeeded"
    return api


@pytest.mark.slow
def test_a_list_is_read_page_after_page(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctp_client.transport.PAGE_SIZE", 7)
    assert len(list(api.kbs.facts("family"))) == api.kbs.get("family").num_facts
    assert len(list(api.kbs.facts("family", limit=10))) == 10


@pytest.mark.slow
def test_names_with_anything_in_them_come_back_unchanged(api: Client) -> None:
    odd = ["<script>alert(1)</script>", "\u200fright to left\u202e", "a/b?c#d%41", "tab\tand\nline"]
    api.kbs.create("client-odd", [(subject, "p/q", "x") for subject in odd])
    assert [fact.subject for fact in api.kbs.facts("client-odd")] == odd
    assert [fact.subject for fact in api.kbs.facts("client-odd", subject=odd[0], predicate="p/q")] == [odd[0]]


@pytest.mark.slow
def test_files_are_uploaded_by_split(api: Client, tmp_path: Path) -> None:
    train, test = tmp_path / "train.tsv", tmp_path / "test.tsv"
    train.write_text("a\tp\tb\nb\tp\tc\n")
    test.write_text("a\tp\tc\n")
    assert api.kbs.upload("client-splits", {"train": train, "test": test}).splits == {"train": 2, "test": 1}


@pytest.mark.slow
def test_a_download_touches_nothing_but_its_own_file(api: Client, tmp_path: Path) -> None:
    (tmp_path / "family.tsv.part").write_text("somebody's own")
    api.kbs.export("family", tmp_path / "family.tsv")
    assert len((tmp_path / "family.tsv").read_text().splitlines()) == api.kbs.get("family").num_facts
    assert (tmp_path / "family.tsv.part").read_text() == "somebody's own"
    with pytest.raises(ApiError):
        api.kbs.export("nobody", tmp_path / "nobody.tsv")
    assert {path.name for path in tmp_path.iterdir()} == {"family.tsv", "family.tsv.part"}


@pytest.mark.slow
def test_a_download_into_a_pipe_goes_through_it(api: Client, tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link.tsv"
    os.mkfifo(pipe)
    link.symlink_to(pipe)  # as /dev/stdout is one
    for to in (pipe, link):
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(pipe.read_text)
            api.kbs.export("family", to, "tsv")
            assert len(reading.result(30).splitlines()) == api.kbs.get("family").num_facts
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "link.tsv"}


@pytest.mark.slow
def test_a_problem_is_an_error_with_a_stable_code(api: Client, tmp_path: Path) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_text("a\tp\tb\nhalf a line\n")
    with pytest.raises(ApiError) as caught:
        api.kbs.upload("client-bad", bad)
    assert (caught.value.status, caught.value.code) == (422, "bad_line")
    assert "line 2" in caught.value.detail


def test_a_service_that_is_not_there_is_told_with_the_remedy() -> None:
    with Client(f"http://127.0.0.1:{free_port()}") as client, pytest.raises(Unreachable, match="ctp up"):
        client.kbs.get("family")


@pytest.mark.slow
def test_an_answer_comes_with_a_proof_from_facts_of_the_kb(trained: Client) -> None:
    found = trained.query("client-family", predicate="grandparent", object="morty")
    leaves = [node.fact for node in found.answers[0].proofs[0].tree.nodes() if node.by == "fact"]
    facts = {str(fact) for fact in trained.kbs.facts("family")}
    assert leaves
    assert {str(leaf) for leaf in leaves} <= facts


@pytest.mark.slow
def test_rules_metrics_and_prolog_of_a_model(trained: Client) -> None:
    rules = list(trained.models.rules("client-family", predicate="grandparent"))
    assert {rule.head.predicate for rule in rules} == {"grandparent"}
    assert "grandparent(X,Y) :- parent(X,Z), parent(Z,Y)" in [rule.text for rule in rules]
    assert "grandparent(X,Y) :- parent(X,Z), parent(Z,Y).\n" in trained.models.prolog("client-family")
    model = trained.models.get("client-family")
    assert model.lineage.job_id is not None
    epochs = trained.jobs.get(model.lineage.job_id).progress["epochs"]
    assert [epoch.epoch for epoch in trained.models.metrics("client-family")][-1] <= epochs


def test_events_are_read_from_any_split_of_fields() -> None:
    lines = [
        ": hello",
        "",
        "id: 1",
        "event: progress",
        'data: {"epoch":',
        "data: 3}",
        "",
        "retry: 5",
        "",
        "data:{}",
        "",
    ]
    assert [(event.id, event.event, event.data) for event in parse(lines)] == [
        ("1", "progress", {"epoch": 3}),
        ("", "message", {}),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Kb, "KbOut"),
        (FactRow, "FactOut"),
        (Symbol, "SymbolOut"),
        (Job, "JobOut"),
        (Model, "ModelOut"),
        (Rule, "RuleOut"),
    ],
)
def test_the_clients_types_ask_for_nothing_that_the_service_does_not_send(
    client: httpx.Client, ours: type[BaseModel], theirs: str
) -> None:
    schema = client.get("/openapi.json").json()["components"]["schemas"][theirs]
    required = {name for name, field in ours.model_fields.items() if field.is_required()}
    assert required <= set(schema["properties"])
