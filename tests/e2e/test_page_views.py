"""The page's views, one at a time: phones, keyboards, colours, policy."""

import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from ctp_client import Client
from tests.e2e.conftest import Visitor
from tests.running import RunningService

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
FAINT_TEXT = (HERE / "faint_text.js").read_text()
NAMELESS_CONTROLS = (HERE / "nameless_controls.js").read_text()
RUN_SCRIPT = """() => {
    const script = document.createElement("script");
    try { script.text = "window.ran = true"; document.body.append(script); } catch { }
    return window.ran ?? false;
}"""
Shoot = Callable[[Page, str], None]
QUESTION = "#/ask?model=page-family@1&p=grandparent&o=morty"
VIEWS = [
    "#/kbs",
    "#/kbs/nations",
    "#/kbs/nations?tab=predicates",
    "#/kbs/family?tab=graph&entity=beth",
    "#/train?kb=umls",
    "#/models",
    "#/models/page-family@1",
    "#/models/page-family@1?tab=evaluation",
    "#/models/page-family@1?tab=prediction",
    "#/models/page-family@1?tab=curves",
    "#/models/page-family@1?tab=about",
    QUESTION,
]


@pytest.fixture(scope="module", autouse=True)
def family(service: RunningService) -> None:
    """Two versions of a model of the sample family."""
    with Client(service.url) as client:
        for epochs in (200, 20):
            training = client.train("family", name="page-family", config={"epochs": epochs})
            assert client.jobs.wait(training.job.id, 120).status == "succeeded"
        client.models.set_alias(client.models.get("page-family@1"), "champion")


def test_a_link_that_leaves_two_places_open_says_what_is_missing(visitor: Visitor) -> None:
    page = visitor().open("#/ask?model=page-family@1&p=grandparent")
    expect(page.locator(".question [role=status]")).to_have_text("Fill at least two of the three places.")
    expect(page.get_by_role("heading", name="For example")).to_be_visible()
    page.get_by_role("combobox", name="Object").fill("morty")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".answers li").first).to_be_visible()
    expect(page.locator(".question [role=status]")).to_have_text("")


def test_a_visit_begins_with_a_model_that_can_show_why_and_any_model_has_examples(
    visitor: Visitor, service: RunningService
) -> None:
    with Client(service.url) as client:
        training = client.train("family", name="page-mute", config={"method": "distmult", "epochs": 1, "search": []})
        assert client.jobs.wait(training.job.id, 120).status == "succeeded"
    page = visitor().open("#/models")
    expect(page.locator("tr", has_text="page-mute version 1")).to_contain_text("familydistmult no proofs")
    page = visitor().open("#/")
    expect(page.get_by_label("Model", exact=True)).not_to_have_value("page-mute@1")
    page.goto(f"{service.url}/#/ask?model=page-mute@1")
    expect(page.get_by_role("heading", name="For example")).to_be_visible()
    page.locator(".card", has_text="For example").get_by_role("link").first.click()
    expect(page.get_by_text("This model cannot explain its answers")).to_be_visible()


def test_another_method_is_trained_from_the_page(visitor: Visitor) -> None:
    page = visitor().open("#/train?kb=family&preset=best")
    page.get_by_label("Name of the model").fill("page-rival")
    page.get_by_label("Method", exact=True).select_option("complex")
    expect(page.get_by_role("radio", name=re.compile(r"^best.*\(complex\)"))).to_be_checked()
    page.reload()
    expect(page.get_by_label("Method", exact=True)).to_have_value("complex")
    page.get_by_label("Name of the model").fill("page-rival")
    page.get_by_text("Settings", exact=True).click()
    page.get_by_label("epochs", exact=True).fill("2")
    page.get_by_role("button", name="Start training").click()
    expect(page.locator('.live [data-status="succeeded"]')).to_be_visible(timeout=120_000)
    page.goto(page.url.split("#")[0] + "#/models/page-rival@1")
    expect(page.get_by_text("complex, preset best")).to_be_visible()


def test_settings_are_explained_and_what_was_tried_is_shown(visitor: Visitor) -> None:
    page = visitor().open("#/train?kb=nations")
    page.get_by_label("Name of the model").fill("page-tried")
    page.get_by_label("Method", exact=True).select_option("complex")
    page.get_by_text("Settings", exact=True).click()
    expect(page.locator(".settings .field", has_text="n3")).to_contain_text("Pressure towards short vectors")
    page.get_by_label("budget seconds", exact=True).fill("2")
    page.get_by_role("button", name="Start training").click()
    expect(page.locator('.live [data-status="succeeded"]')).to_be_visible(timeout=120_000)
    page.goto(page.url.split("#")[0] + "#/models/page-tried@1?tab=about")
    tried = page.locator("section", has=page.get_by_role("heading", name="What was tried"))
    expect(tried.locator("tbody tr", has_text="chosen").first).to_be_visible()


def test_no_button_covers_the_proof(visitor: Visitor) -> None:
    page = visitor().open("#/ask?model=page-family@1&p=grandparent&o=morty")
    proof, buttons = page.locator(".proof"), page.get_by_role("button", name="Fit")
    expect(buttons).to_be_visible()
    frame, button = proof.bounding_box(), buttons.bounding_box()
    assert frame is not None
    assert button is not None
    assert button["y"] >= frame["y"] + frame["height"]


def test_a_question_is_asked_and_its_proof_is_read_by_keyboard_alone(visitor: Visitor) -> None:
    page = visitor().open("#/ask?model=page-family@1")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    tab_to(page, page.get_by_role("combobox", name="Predicate"))
    page.keyboard.type("grandp")
    expect(page.get_by_role("option", name=re.compile("grandparent"))).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("combobox", name="Predicate")).to_have_value("grandparent")
    page.keyboard.press("Tab")
    page.keyboard.type("mort")
    expect(page.get_by_role("option", name=re.compile("morty"))).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.locator(".proof .node.fact").first).to_be_visible()
    tab_to(page, page.locator(".answers button").nth(1))
    page.keyboard.press("Enter")
    expect(page.locator(".answers button").nth(1)).to_have_attribute("aria-pressed", "true")
    tab_to(page, page.locator(".proof"))
    before = page.locator(".proof .stage").get_attribute("style")
    page.keyboard.press("+")
    page.keyboard.press("ArrowLeft")
    assert page.locator(".proof .stage").get_attribute("style") != before
    page.keyboard.press("0")
    assert page.locator(".proof .stage").get_attribute("style") == before


def tab_to(page: Page, target: object, most: int = 60) -> None:
    for _ in range(most):
        if target.evaluate("e => e === document.activeElement"):  # type: ignore[attr-defined]
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {target}")


def test_every_view_fits_a_phone_and_can_be_read_in_the_dark(visitor: Visitor) -> None:
    visit = visitor(width=375, dark=True)
    for address in VIEWS:
        page = visit.open(address)
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, address
        assert page.evaluate(FAINT_TEXT) == [], address
        for link in page.locator("nav.tabs a").all():
            box = link.bounding_box()
            assert box
            assert box["height"] >= 40
            assert box["y"] + box["height"] <= 860


def test_every_view_can_be_read_by_light_and_its_controls_have_names(visitor: Visitor) -> None:
    visit = visitor()
    for address in VIEWS:
        page = visit.open(address)
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate(FAINT_TEXT) == [], address
        assert page.evaluate(NAMELESS_CONTROLS) == [], address


def test_the_colours_follow_the_system_until_they_are_chosen(visitor: Visitor) -> None:
    visit = visitor(dark=True)
    page = visit.open("#/kbs")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.get_by_role("button", name="Use light colours").click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    expect(page.get_by_role("button", name="Use dark colours")).to_be_visible()


def test_rules_are_sorted_filtered_opened_and_copied(visitor: Visitor) -> None:
    page = visitor().open("#/models/page-family@1")
    page.get_by_role("button", name="Confidence").click()
    expect(page.locator("th", has_text="Confidence")).to_have_attribute("aria-sort", "descending")
    confidences = [float(text) for text in page.locator("tbody td:nth-child(2)").all_inner_texts()]
    assert confidences == sorted(confidences, reverse=True)
    page.get_by_role("button", name="Support").click()
    expect(page.locator("th", has_text="Support")).to_have_attribute("aria-sort", "descending")
    page.get_by_label("Search").fill("grandparent(X,Y) :- parent(X,Z), parent")
    expect(page.locator("[data-rule]")).to_have_count(1)
    page.locator("[data-rule]").click()
    expect(page.locator(".groundings li").first).to_contain_text("grandparent(")
    expect(page.locator(".groundings li").first).to_contain_text("⇐ parent(")
    page.get_by_role("button", name="Copy as Prolog").click()
    expect(page.locator(".notice")).to_have_text("The rules copied")
    assert "grandparent(X,Y) :- parent(X,Z), parent(Z,Y)." in page.evaluate("navigator.clipboard.readText()")
    page.reload()
    expect(page.get_by_label("Search")).to_have_value("grandparent(X,Y) :- parent(X,Z), parent")


def test_rules_are_grouped_by_what_they_conclude_until_they_are_sorted(visitor: Visitor) -> None:
    page = visitor().open("#/models/page-family@1")
    heads = page.locator("tr.group th")
    expect(heads.first).to_be_visible()
    named = [text.split()[0] for text in heads.all_inner_texts()]
    assert len(named) == len(set(named)), "each head has one group"
    expect(heads.first).to_contain_text(re.compile(r"\d+ rules?; (it|one of them) explains \d+ of \d+ facts"))
    shown = page.locator("[data-rule]").count()
    more = page.locator("tr.unfold button").first
    hidden = int(more.inner_text().split()[0])
    more.click()
    expect(page.locator("[data-rule]")).to_have_count(shown + hidden)
    page.get_by_role("button", name="Support").click()
    expect(heads).to_have_count(0)


def test_the_steps_of_a_score_add_up_to_it_and_figures_say_what_they_mean(visitor: Visitor) -> None:
    visit = visitor()
    page = visit.open(QUESTION)
    steps = page.get_by_role("list", name="How the score comes together").get_by_role("listitem")
    expect(steps.first).to_contain_text("Before any proof")
    # The last step reaches the score, which the last line and the list of answers repeat.
    reached, score = (steps.nth(at).locator(".number").last.inner_text() for at in (-2, -1))
    assert reached == score == page.locator(".answers .value").first.inner_text()
    page = visit.open("#/models/page-family@1")
    meaning = page.locator(".stats details.meaning").first
    meaning.locator("summary").click()
    expect(meaning.locator("p")).to_contain_text("Expected calibration error")


def test_versions_are_compared_named_and_exported(visitor: Visitor, shoot: Shoot) -> None:
    page = visitor().open("#/models")
    row = page.locator("tr", has_text="page-family version 1")
    expect(row.locator(".badge.alias")).to_have_text("champion")
    page.get_by_label("Compare page-family version 1").check()
    page.get_by_label("Compare page-family version 2").check()
    page.get_by_role("link", name="Compare 2").click()
    expect(page.locator(".chart canvas").first).to_be_visible()
    row = page.locator("tr", has=page.get_by_role("rowheader", name="epochs", exact=True))
    expect(row.locator("strong")).to_have_text(["200", "20"])
    expect(page.get_by_role("status").filter(has_text="no test or valid split")).to_be_visible()

    page.goto(page.url.split("#")[0] + "#/models/page-family@2")
    page.get_by_role("button", name="Set alias").click()
    page.get_by_role("textbox", name="Alias").fill("candidate")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator(".badge.alias")).to_have_text("candidate")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Export").click()
    assert waiting.value.path().stat().st_size > 1000


def test_the_graph_grows_by_a_click_and_stays_small_on_a_large_kb(visitor: Visitor, client: httpx.Client) -> None:
    hub = "".join(f"hub\tnear\te{i}\ne{i}\tnext\te{i + 1}\n" for i in range(50_000))
    files = {"file": ("large.tsv", hub.encode())}
    assert client.post("/kbs", data={"name": "page-large"}, files=files).status_code in (200, 201)
    page = visitor().open("#/kbs/page-large?tab=graph&entity=hub")
    expect(page.locator(".around li").first).to_be_visible()
    first = page.locator(".around li").count()
    assert 10 <= first <= 100, "a neighbourhood, never everything"
    page.locator(".around li button").first.click()
    expect(page.locator(".around h2")).to_have_text("e0")
    assert "entity=e0" in page.url


def test_the_calls_are_described_without_a_request_to_elsewhere(visitor: Visitor) -> None:
    page = visitor().open("docs")
    page.locator("#operations-queries-query").click()
    expect(page.get_by_text("Execute").first).to_be_visible()


def test_the_policy_lets_no_text_become_markup(visitor: Visitor, client: httpx.Client) -> None:
    policy = client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    visit = visitor()
    page = visit.open("#/kbs")
    written = page.evaluate("try { document.body.innerHTML = '<b>x</b>'; 'written' } catch (error) { error.name }")
    assert written == "TypeError"
    assert page.evaluate(RUN_SCRIPT) is False
    assert visit.complaints, "the browser reports what it refused"
    visit.complaints.clear()


def test_an_address_of_nothing_says_so(visitor: Visitor) -> None:
    page = visitor().open("#/nowhere")
    expect(page.get_by_role("heading", name="There is nothing at this address")).to_be_visible()
    page = visitor().open("#/kbs/absent")
    expect(page.get_by_role("alert")).to_contain_text("there is no KB 'absent'")


def test_pictures_for_the_readme(visitor: Visitor, shoot: Shoot) -> None:
    for name, address, dark, width in [
        ("ask", QUESTION, False, 1280),
        ("ask-dark", QUESTION, True, 1280),
        ("ask-phone", QUESTION, False, 375),
        ("graph", "#/kbs/family?tab=graph&entity=beth", False, 1280),
        ("rules", "#/models/page-family@1", False, 1280),
        ("kb", "#/kbs/nations?tab=predicates", True, 1280),
    ]:
        page = visitor(width=width, dark=dark).open(address)
        expect(page.locator(".proof .fact, .canvas canvas, tbody tr, .bars li").first).to_be_visible()
        if width < 500:
            page.locator(".proof").scroll_into_view_if_needed()
        shoot(page, name)
