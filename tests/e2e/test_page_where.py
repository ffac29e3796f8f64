"""A question with several atoms on the page: built by hand, answered as a table, opened into proofs."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from ctp_client import Client
from tests.e2e.conftest import Visitor
from tests.running import RunningService

pytestmark = pytest.mark.slow
SCRIPTS = Path(__file__).parent
FAINT_TEXT, NAMELESS_CONTROLS = ((SCRIPTS / f"{name}.js").read_text() for name in ("faint_text", "nameless_controls"))


@pytest.fixture(scope="module", autouse=True)
def family(service: RunningService) -> None:
    config = {"method": "proofs", "templates": {"1": 2, "2": 4}, "epochs": 60}
    with Client(service.url) as client:
        training = client.train("family", name="page-where", config=config)
        assert client.jobs.wait(training.job.id, 120).status == "succeeded"


def test_a_question_is_built_from_rows_and_its_answers_open_into_proofs(visitor: Visitor) -> None:
    page = visitor().open("#/ask?model=page-where@1")
    page.get_by_role("link", name="Several atoms").click()
    first, second = (page.get_by_role("group", name=f"Atom {number}") for number in (1, 2))
    first.get_by_role("combobox", name="Predicate").fill("grand")
    page.get_by_role("option", name="grandparent").click()
    first.get_by_role("combobox", name="Object").fill("morty")
    second.get_by_role("combobox", name="Join").select_option("and not")
    second.get_by_role("combobox", name="Subject").fill("?x")
    second.get_by_role("combobox", name="Predicate").fill("sister")
    second.get_by_role("combobox", name="Object").fill("jerry")
    expect(first.get_by_role("combobox", name="Subject")).to_have_class("variable")
    expect(first.get_by_role("combobox", name="Object")).not_to_have_class("variable")
    page.get_by_role("button", name="Ask").click()
    rows = page.locator(".bindings tbody > tr:not([hidden])")
    expect(rows.first).to_be_visible()
    page.get_by_role("button", name="Proofs of answer 1", exact=True).click()
    expect(page.locator(".bindings .proved").first).to_contain_text("grandparent(")
    expect(page.locator(".bindings .proved").nth(1)).to_contain_text("not sister(")
    assert page.evaluate(FAINT_TEXT) == []
    assert page.evaluate(NAMELESS_CONTROLS) == []


def test_a_link_asks_again_and_draws_the_proof_of_what_is_not_stated(visitor: Visitor) -> None:
    rows = '[["and","joyce","grandparent","?x"],["or","?x","sibling","morty"],["and","?y","parent","?x"]]'
    page = visitor(width=375, dark=True).open(f"#/ask?model=page-where@1&where={rows}&run=1")
    expect(page.locator(".bindings thead")).to_contain_text("?x")
    page.get_by_role("button", name="Proofs of answer 1", exact=True).click()
    expect(page.locator(".bindings .proved")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    assert page.evaluate(FAINT_TEXT) == []


def test_a_row_that_is_not_filled_is_told_and_a_wrong_name_is_refused_with_the_nearest(visitor: Visitor) -> None:
    page = visitor().open("#/ask?model=page-where@1&where=[]")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".where [role=status]")).to_contain_text("Fill all places")
    page.get_by_role("group", name="Atom 2").get_by_role("button", name="Remove this atom").click()
    atom = page.get_by_role("group", name="Atom 1")
    atom.get_by_role("combobox", name="Predicate").fill("parrent")
    atom.get_by_role("combobox", name="Object").fill("morty")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_contain_text("the nearest known names are 'parent'")


def test_an_answer_tells_which_rules_almost_fire_and_what_would_change_it(visitor: Visitor) -> None:
    page = visitor().open("#/ask?model=page-where@1&s=rick&p=grandparent&o=morty")
    page.get_by_role("button", name="What would change this?").click()
    expect(page.locator(".explain")).to_contain_text("it would score")
    page.get_by_role("button", name="Ask again without them").click()
    expect(page.locator(".explain")).to_contain_text("Without these facts:")
    page.get_by_role("button", name="Which rules almost fire?").click()
    expect(page.locator(".explain")).to_contain_text("missing:")
    page = visitor().open("#/ask?model=page-where@1&p=grandparent&o=morty")
    page.get_by_role("combobox", name="Why not …?").fill("jerry")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".explain")).to_contain_text("grandparent(jerry, morty) scores")
    assert page.evaluate(FAINT_TEXT) == []
    assert page.evaluate(NAMELESS_CONTROLS) == []
