"""A real browser in front of the started service, watched for everything it should not do."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.running import RunningService

ROOT = Path(__file__).parents[2]
# What the browser itself says when a call is answered with an error, which some tests provoke.
EXPECTED = ("Failed to load resource",)


@dataclass
class Visit:
    """A browser window on a service; what went wrong in it is in `complaints`."""

    context: BrowserContext
    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    def open(self, address: str = "") -> Page:
        self.page.goto(f"{self.url}/{address}")
        self.page.wait_for_load_state("networkidle")
        return self.page

    def watch(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"script error: {error}"))
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(EXPECTED):
            self.complaints.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.url, "blob:", "data:")):
            self.complaints.append(f"outside request: {request.url}")


Visitor = Callable[..., Visit]


# Not for the whole session: as long as Playwright runs, no other test can run an event loop.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser | None]:
    """Debian's chromium; None where there is none."""
    path = next((p for p in map(Path, ("/usr/bin/chromium", "/usr/bin/chromium-browser")) if p.exists()), None)
    if path is None:
        yield None
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def visitor(browser: Browser | None, service: RunningService, needs: Callable[[str, bool], str]) -> Iterator[Visitor]:
    """`visitor(width=375, dark=True)`: a new window; a console error or a request to elsewhere fails the test."""
    needs("chromium", browser is not None)
    assert browser is not None
    visits: list[Visit] = []

    def visit(url: str = service.url, width: int = 1280, dark: bool = False) -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": 860},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(60_000)
        expect.set_options(timeout=30_000)
        visits.append(Visit(context, context.new_page(), url))
        visits[-1].watch(visits[-1].page)
        return visits[-1]

    yield visit
    for made in visits:
        made.context.close()
        assert made.complaints == []


@pytest.fixture(scope="session")
def shoot() -> Callable[[Page, str], None]:
    """Takes a screenshot; kept only where SCREENSHOTS names a folder, as `make screenshots` does."""
    folder = os.environ.get("SCREENSHOTS")

    def take(page: Page, name: str) -> None:
        image = page.screenshot()
        if folder:
            (ROOT / folder).mkdir(parents=True, exist_ok=True)
            (ROOT / folder / f"{name}.png").write_bytes(image)

    return take
