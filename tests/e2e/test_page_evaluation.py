"""How good a model is, on the page."""

import pytest
from playwright.sync_api import expect

from ctp_client import Client
from tests.e2e.conftest import Visitor
from tests.running import RunningService

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def models(service: RunningService) -> None:
    """One of a KB with all splits, one of a KB that is one file."""
    with Client(service.url) as client:
        for kb in ("nations", "family"):
            training = client.train(kb, f"page-{kb}-judged", config={"method": "distmult", "search": [], "epochs": 1})
            assert client.jobs.wait(training.job.id, 120).status == "succeeded"


@pytest.mark.parametrize("width", [1280, 375])
def test_a_model_is_evaluated_and_its_figures_say_of_which_split_they_are(visitor: Visitor, width: int) -> None:
    page = visitor(width=width).open("#/models/page-nations-judged@1")
    expect(page.locator(".stats").first).to_contain_text("MRR on validation")
    page.get_by_role("link", name="Evaluate").click()
    page.get_by_role("button", name="Evaluate").click()
    figures = page.locator("section", has=page.get_by_role("heading", name="On test"))
    expect(figures).to_contain_text("mrr on test", timeout=120_000)
    expect(figures).to_contain_text("asked for the subject")
    expect(page.locator(".bars").nth(1).locator("li").first).to_be_visible()
    expect(page.locator(".reliability circle").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"


def test_a_kb_without_a_test_split_says_what_to_do(visitor: Visitor) -> None:
    page = visitor().open("#/models/page-family-judged@1?tab=evaluation")
    page.get_by_role("button", name="Evaluate").click()
    expect(page.get_by_role("alert")).to_contain_text("holdout")


def test_an_evaluation_among_the_jobs_is_shown_with_its_model(visitor: Visitor, service: RunningService) -> None:
    with Client(service.url) as client:
        job = client.evaluations.create("page-nations-judged@1", limit=2)
    page = visitor().open(f"#/jobs/{job.id}")
    expect(page.get_by_role("heading", name="On test")).to_be_visible(timeout=120_000)
