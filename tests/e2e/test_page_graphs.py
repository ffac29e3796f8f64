"""Questions about a small graph, in a real browser."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ctp_client import Client
from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.kb.formats.graphs_jsonl import write_graphs_jsonl
from tests.e2e.conftest import Visitor
from tests.running import RunningService

pytestmark = pytest.mark.slow


def test_a_small_graph_is_drawn_or_pasted_and_asked_about(
    visitor: Visitor, service: RunningService, tmp_path: Path
) -> None:
    file = tmp_path / "kin.jsonl"
    file.write_text("".join(write_graphs_jsonl(family_graphs(60, [2], seed=0))))
    with Client(service.url) as client:
        client.kbs.upload("page-kin", file, kind="graphs")
        training = client.train("page-kin", config={"epochs": 12})
        assert client.jobs.wait(training.job.id, 200).status == "succeeded"
    page = visitor().open("#/ask?model=page-kin@1")
    facts = page.get_by_label("Facts, one per line")
    canvas = page.locator(".canvas")
    page.get_by_label("Predicate of the next edge").fill("father")
    for x, y in ((90, 90), (260, 180), (90, 90), (260, 180)):
        canvas.click(position={"x": x, "y": y})
    expect(facts).to_have_value("n1, father, n2")

    facts.fill("ann, father, bob\nbob\n")
    expect(page.locator("form [role=status]")).to_have_text("Line 2: not subject, predicate, object.")
    facts.fill("ann, father, bob\nbob, brother, cy\n")
    page.get_by_label("How is").select_option("ann")
    page.get_by_label("related to").select_option("cy")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".answers li").first).to_be_visible()
    expect(page.locator(".proof .node.goal .end").first).to_have_text("ann")
    address = page.url
    page.reload()
    expect(page.get_by_label("Facts, one per line")).to_have_value("ann, father, bob\nbob, brother, cy")
    assert page.url == address


def test_a_prover_and_a_network_are_compared_question_by_question(
    visitor: Visitor, service: RunningService, tmp_path: Path, shoot: Callable[[Page, str], None]
) -> None:
    files = {split: tmp_path / f"{split}.jsonl" for split in ("train", "test")}
    files["train"].write_text("".join(write_graphs_jsonl(family_graphs(300, (2, 3), seed=1))))
    files["test"].write_text("".join(write_graphs_jsonl(family_graphs(40, (3, 5), seed=2))))
    with Client(service.url) as client:
        client.kbs.upload("page-contest", files, kind="graphs")
        for name, config in (("prover", {}), ("network", {"method": "rnn", "epochs": 1})):
            training = client.train("page-contest", name=f"page-{name}", config=config)
            assert client.jobs.wait(training.job.id, 200).status == "succeeded"
    page = visitor().open("#/models/compare?ids=page-prover@1,page-network@1")
    inside = (
        "card => card.querySelector('.u-legend').getBoundingClientRect().bottom <= card.getBoundingClientRect().bottom"
    )
    assert page.locator(".card:has(.u-legend)").first.evaluate(inside), "the legend has two curves of each model"
    right = page.locator("section", has=page.get_by_role("heading", name="Who is right"))
    expect(right.locator("tbody th")).to_have_text(["all", "3 facts", "5 facts"])
    expect(right.locator(".verdict")).to_contain_text(
        re.compile(r"^page-network@1: \d+ of 40 right, \d+ fewer than page-prover@1: hardly chance")
    )
    expect(right.locator("tbody tr").first).to_contain_text(re.compile(r"%.*% \*"))
    differ = page.locator(".differ > li").first
    expect(differ.locator(".badge").first).to_have_text("right")
    expect(differ.locator(".mono")).to_contain_text(" ⇐ ")
    expect(differ.get_by_text("given ")).to_be_visible()
    shoot(page, "compare")
    rest = page.get_by_role("button", name=re.compile(r"Show all \d+"))
    number = int(rest.inner_text().split()[-1])
    expect(page.locator(".differ > li")).to_have_count(20)
    rest.click()
    expect(page.locator(".differ > li")).to_have_count(number)
    expect(rest).to_have_count(0)
    differ.get_by_role("link", name="page-prover@1").click()
    expect(page.locator(".proof .node.goal").first).to_be_visible()
