"""Predict all that is missing, on the page."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from ctp_client import Client
from tests.e2e.conftest import Visitor
from tests.running import RunningService

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def model(service: RunningService) -> None:
    with Client(service.url) as client:
        training = client.train("family", "page-predicts", config={"method": "rules", "search": []})
        assert client.jobs.wait(training.job.id, 120).status == "succeeded"


@pytest.mark.parametrize("width", [1280, 375])
def test_everything_missing_is_predicted_and_downloaded(visitor: Visitor, width: int, tmp_path: Path) -> None:
    page = visitor(width=width).open("#/models/page-predicts@1")
    page.locator("header").get_by_role("link", name="Predict all").click()
    page.get_by_label("Predicate").fill("grandparent")
    page.get_by_label("Score of at least").fill("0")
    page.get_by_role("button", name="Predict all").click()
    found = page.locator("section", has=page.get_by_role("heading", name="Found"))
    expect(found).to_contain_text("rows from", timeout=120_000)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
    with page.expect_download() as download:
        found.get_by_role("button", name="Download CSV of grandparent").click()
    download.value.save_as(tmp_path / "rows.csv")
    header, first, *_ = (tmp_path / "rows.csv").read_text().splitlines()
    assert header == "subject,predicate,object,score,probability,rank,known,asked,proof,proof_facts"
    assert ",grandparent," in first
    earlier = page.locator("section", has=page.get_by_role("heading", name="Earlier predictions"))
    rows = earlier.locator("tbody tr")
    expect(rows.first).to_contain_text("succeeded")
    before = rows.count()
    rows.first.get_by_role("button", name="Delete the prediction of grandparent").click()
    expect(rows).to_have_count(before - 1)


def test_a_predicate_that_is_not_there_says_which_is_meant(visitor: Visitor) -> None:
    page = visitor().open("#/models/page-predicts@1?tab=prediction")
    page.get_by_label("Predicate").fill("grandparrent")
    page.get_by_role("button", name="Predict all").click()
    expect(page.get_by_role("alert")).to_contain_text("did you mean 'grandparent'")


def test_a_prediction_among_the_jobs_is_shown_with_its_model(visitor: Visitor, service: RunningService) -> None:
    with Client(service.url) as client:
        job = client.predictions.create("page-predicts", "grandparent")
    page = visitor().open(f"#/jobs/{job.id}")
    expect(page.get_by_role("heading", name="Found")).to_be_visible(timeout=120_000)
