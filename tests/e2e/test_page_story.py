"""The page in a real browser: from nothing to a proof."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from ctp_client import Client
from tests.e2e.conftest import Visitor
from tests.e2e.line import Line
from tests.running import RunningService, running_service

pytestmark = pytest.mark.slow
Shoot = Callable[[Page, str], None]
HOSTILE = "<script>alert(1)</script>"
RIGHT_TO_LEFT = "\u200fneb\u202eatsu"


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[RunningService]:
    with running_service(tmp_path) as running:
        yield running


def test_a_first_visit_is_one_click_away_from_a_proof(fresh: RunningService, visitor: Visitor, shoot: Shoot) -> None:
    page = visitor(fresh.url).open()
    shoot(page, "start")
    page.get_by_role("button", name="Train the family example").click()
    expect(page.get_by_role("progressbar", name="Training")).to_be_visible()
    expect(page.locator(".proof .node.fact")).to_have_count(2, timeout=120_000)
    expect(page.locator(".proof .node.rule")).to_contain_text("grandparent(X,Y) :- parent(X,Z), parent(Z,Y)")
    expect(page.locator(".proof .link.weakest")).to_have_count(1)
    assert "p=grandparent" in page.url


def test_a_key_is_asked_for_once_and_sent_with_every_call_and_the_event_stream(
    fresh: RunningService, visitor: Visitor
) -> None:
    environment = os.environ | {"CTP_DATA_DIR": str(fresh.folder)}
    command = [sys.executable, "-m", "service.cli", "keys", "create"]
    key = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    visit = visitor(fresh.url)
    sent: set[str] = set()
    visit.page.on("request", lambda request: sent.add(request.headers.get("authorization", "none")))
    with fresh.client() as client:
        while client.get("/kbs").status_code != 401:
            time.sleep(0.1)  # an open service remembers for two seconds that it is open
    page = visit.open("#/")
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Train the family example").click()
    expect(page.locator(".proof .node.fact")).to_have_count(2, timeout=120_000)
    assert sent == {"none", f"Bearer {key}"}
    assert key not in page.url

    page.reload()
    expect(page.locator(".proof .node.fact")).to_have_count(2)
    expect(page.locator("dialog")).to_have_count(0)


def test_the_whole_story_from_an_upload_to_a_link_to_the_proof(visitor: Visitor, tmp_path: Path, shoot: Shoot) -> None:
    visit = visitor()
    page = visit.open("#/kbs")
    file = tmp_path / "clan.tsv"
    file.write_text(clan(["ann", "bob", "cy"]))
    drop(page, file)
    expect(page.get_by_label("Name")).to_have_value("clan")
    page.get_by_label("Name").fill("story-clan")
    page.get_by_role("button", name="Upload").click()

    expect(page.get_by_role("heading", name="story-clan")).to_be_visible()
    expect(page.locator(".stats")).to_contain_text("Predicates2")
    page.get_by_role("combobox", name="Predicate").fill("grand")
    page.get_by_role("option", name=re.compile("grandparent")).click()
    expect(page.locator("tbody tr").first).to_contain_text("grandparent")
    assert page.locator("tbody tr").filter(has_text=re.compile(r"\bparent\b")).count() == 0

    page.get_by_role("link", name="Train on it").click()
    page.get_by_text("Settings", exact=True).click()
    page.get_by_label("epochs", exact=True).fill("120")
    page.get_by_role("button", name="Start training").click()
    expect(page.locator('.live [data-status="succeeded"]')).to_be_visible(timeout=120_000)
    expect(page.locator(".chart canvas")).to_be_visible()
    expect(page.locator(".chart")).to_contain_text("loss")
    expect(page.locator("details")).to_contain_text("120")
    page.get_by_role("link", name="Ask it").click()

    page.get_by_role("combobox", name="Subject").fill("ann")
    page.get_by_role("combobox", name="Predicate").fill("grandparent")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".answers li").first).to_be_visible()
    page.locator(".answers button").nth(1).click()
    expect(page.locator(".proof .node.goal").first).to_contain_text("ann grandparent")
    page.get_by_role("button", name="Copy link").click()
    link = page.evaluate("navigator.clipboard.readText()")
    written = page.get_by_label("The proof as text").inner_text()

    again = visit.context.new_page()
    visit.watch(again)
    again.goto(link)
    expect(again.get_by_label("The proof as text")).to_have_text(written)
    expect(again.locator('.answers button[aria-pressed="true"] .rank')).to_have_text("2")


def test_a_bad_line_is_shown_with_its_number_and_its_neighbours(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor().open("#/kbs")
    file = tmp_path / "bad.tsv"
    file.write_text("a\tp\tb\nb\tp\n<b>c</b>\tp\td\n")
    page.get_by_label("Files to upload").set_input_files(file)
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("alert")).to_contain_text("line 2")
    expect(page.locator(".source .wrong")).to_have_text(re.compile("^2"))
    expect(page.locator(".source div").nth(2)).to_have_text("3<b>c</b>\tp\td")


def test_an_upload_is_named_after_its_file_without_the_endings_of_its_format(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor().open("#/kbs")
    file = tmp_path / "my family.v2.ndjson.gz"
    file.write_bytes(b"")
    page.get_by_label("Files to upload").set_input_files(file)
    expect(page.get_by_label("Name")).to_have_value("my-family.v2")


def test_names_are_text_all_the_way_through(visitor: Visitor, tmp_path: Path) -> None:
    visit = visitor()
    visit.page.on("dialog", lambda dialog: visit.complaints.append(f"a name was run: {dialog.message}"))
    page = visit.open("#/kbs")
    file = tmp_path / "hostile.tsv"
    file.write_text(clan([HOSTILE, RIGHT_TO_LEFT, "<img src=x onerror=alert(2)>"]))
    page.get_by_label("Files to upload").set_input_files(file)
    page.get_by_label("Name").fill("hostile")
    page.get_by_role("button", name="Upload").click()
    expect(page.locator("tbody bdi", has_text=HOSTILE).first).to_be_visible()
    assert page.locator("tbody bdi").first.evaluate("e => e.textContent") == HOSTILE

    page.get_by_role("link", name="Graph").click()
    expect(page.locator(".canvas canvas").first).to_be_visible()
    expect(page.locator(".around li").first).to_contain_text(HOSTILE)

    page.get_by_role("link", name="Train on it").click()
    page.get_by_role("button", name="Start training").click()
    page.get_by_role("link", name="Ask it").click(timeout=120_000)
    page.get_by_role("combobox", name="Subject").fill("<scr")
    page.get_by_role("option", name=HOSTILE).click()
    page.get_by_role("combobox", name="Predicate").fill("grandparent")
    page.get_by_role("button", name="Ask").click()
    goal = page.locator(".proof .node.goal .end").first
    expect(goal).to_be_visible()
    assert goal.evaluate("e => e.textContent") == HOSTILE

    page.get_by_role("combobox", name="Subject").fill(RIGHT_TO_LEFT)
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".proof .node.goal .end").first).to_have_text(RIGHT_TO_LEFT)
    assert page.locator(".proof .node.goal .end").first.evaluate("e => e.textContent") == RIGHT_TO_LEFT
    assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0


def test_no_training_starts_before_its_settings_are_there(visitor: Visitor) -> None:
    page = visitor().open("#/kbs")
    held: list[Route] = []
    page.route("**/presets?*", lambda route: held.append(route))  # noqa: PLW0108 (it cannot wrap a builtin)
    with page.expect_request("**/presets?*"):
        page.goto(f"{page.url.split('#')[0]}#/train?kb=nations")
    start = page.get_by_role("button", name="Start training")
    expect(start).to_be_disabled()
    with page.expect_request("**/presets?*"):
        page.get_by_label("Knowledge base").select_option("family")
    with page.expect_response("**/presets?kb=nations") as late:
        held[0].continue_()
    late.value.finished()
    page.evaluate("new Promise(requestAnimationFrame)")  # what the page does with an answer, it has done
    expect(page.get_by_role("radio")).to_have_count(0)
    expect(start).to_be_disabled()
    held[1].continue_()
    expect(start).to_be_enabled()
    expect(page.get_by_role("radio", name=re.compile("^fast"))).to_be_checked()


def test_a_training_is_watched_through_a_reload_and_a_lost_connection_and_cancelled(
    visitor: Visitor, service: RunningService, shoot: Shoot
) -> None:
    line = Line(service.url)
    visit = visitor(line.url)
    page = visit.open("#/train?kb=nations")
    page.get_by_label("Name of the model").fill("watched")
    page.get_by_label("Method", exact=True).select_option("ctp")
    page.get_by_text("Settings", exact=True).click()
    page.get_by_label("epochs", exact=True).fill("5000")
    page.get_by_role("button", name="Start training").click()
    expect(page.locator('.live [data-status="running"]')).to_be_visible(timeout=60_000)
    expect(page.locator(".chart canvas")).to_be_visible(timeout=60_000)
    expect(page.locator(".live")).to_contain_text(re.compile(r"epoch [\d,]+ of 5,000"), timeout=60_000)
    page.reload()
    expect(page.locator(".chart canvas")).to_be_visible()
    expect(page.locator(".live")).to_contain_text(re.compile(r"epoch [\d,]+ of 5,000"), timeout=60_000)
    before = epoch(page)
    line.cut()
    expect(page.locator(".live")).to_contain_text("Connection lost")
    line.mend()
    expect(page.locator(".live")).not_to_contain_text("Connection lost")
    number = "Number(/epoch ([\\d,]+)/.exec(document.querySelector('.live').textContent)[1].replace(',', ''))"
    page.wait_for_function(f"least => {number} > least", arg=max(before, 40), timeout=120_000)
    shoot(page, "training")

    page.get_by_role("button", name="Cancel").click()
    expect(page.locator('.live [data-status="cancelled"]')).to_be_visible(timeout=30_000)
    with Client(service.url) as client:
        assert client.models.get("watched@1").status == "cancelled"
    line.close()


def epoch(page: Page) -> int:
    match = re.search(r"epoch ([\d,]+)", page.locator(".live").inner_text())
    assert match
    return int(match[1].replace(",", ""))


def clan(first: list[str]) -> str:
    """Three generations under each name: who is a parent of whom, and most of the grandparents."""
    lines = []
    for at, name in enumerate([*first, *(f"g{i}" for i in range(9))]):
        for child in range(2):
            lines.append((name, "parent", f"c{at}{child}"))
            for grandchild in range(2):
                lines.append((f"c{at}{child}", "parent", f"e{at}{child}{grandchild}"))
                if grandchild == 0 or at % 3:
                    lines.append((name, "grandparent", f"e{at}{child}{grandchild}"))
    return "".join("\t".join(line) + "\n" for line in lines)


def drop(page: Page, file: Path) -> None:
    """As a user drags a file onto the page."""
    data = page.evaluate_handle(
        """([name, text]) => {
            const data = new DataTransfer();
            data.items.add(new File([text], name, {type: "text/tab-separated-values"}));
            return data;
        }""",
        [file.name, file.read_text()],
    )
    target = page.locator(".drop")
    target.dispatch_event("dragover", {"dataTransfer": data})
    target.dispatch_event("drop", {"dataTransfer": data})
