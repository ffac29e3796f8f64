"""Questions about a small graph, in a real browser."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from ctp_core.datasets.family_graphs import family_graphs
from ctp_core.datasets.graphs_jsonl import write_graphs_jsonl
from service.client import Client
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
    facts = page.get_by_label("Facts, one in a line")
    canvas = page.locator(".canvas")
    page.get_by_label("Predicate of the next edge").fill("father")
    for x, y in ((90, 90), (260, 180), (90, 90), (260, 180)):
        canvas.click(position={"x": x, "y": y})
    expect(facts).to_have_value("n1, father, n2")

    facts.fill("ann, father, bob\nbob\n")
    expect(page.locator("form [role=status]")).to_have_text("Line 2: not subject, predicate, object.")
    facts.fill("ann, father, bob\nbob, father, cy\n")
    page.get_by_label("How is").select_option("ann")
    page.get_by_label("related to").select_option("cy")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".answers li").first).to_be_visible()
    expect(page.locator(".proof .node.goal .end").first).to_have_text("ann")
    address = page.url
    page.reload()
    expect(page.get_by_label("Facts, one in a line")).to_have_value("ann, father, bob\nbob, father, cy")
    assert page.url == address
