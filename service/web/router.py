"""Routes `/`, `/docs` and `/static`: they need no key, since they show nothing of any tenant."""

from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

STATIC = Path(__file__).parent / "static"
_SELF = "script-src 'self'; style-src 'self'; connect-src 'self'; font-src 'self'"
_CLOSED = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# With Trusted Types, the browser refuses to turn any string into HTML or script, even ours.
PAGE_POLICY = f"{_CLOSED}; {_SELF}; img-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
# Swagger UI writes HTML from strings, and its style sheet has icons as data URLs.
DOCS_POLICY = f"{_CLOSED}; {_SELF}; img-src 'self' data:"
HEADERS = {
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
}

router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
def page() -> FileResponse:
    return _file("index.html", PAGE_POLICY)


@router.api_route("/docs", methods=["GET", "HEAD"])
def docs() -> FileResponse:
    return _file("docs.html", DOCS_POLICY)


@router.api_route("/favicon.ico", methods=["GET", "HEAD"])
def icon() -> FileResponse:
    return FileResponse(STATIC / "icon.svg", headers=HEADERS)


def _file(name: str, policy: str) -> FileResponse:
    return FileResponse(STATIC / name, headers={**HEADERS, "Content-Security-Policy": policy})


class Files(StaticFiles):
    """Serves static files with the page's headers; browsers revalidate them each time, mostly without a download."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = {**HEADERS, "Content-Security-Policy": PAGE_POLICY}
                message["headers"] = [
                    *message["headers"],
                    *((k.lower().encode(), v.encode()) for k, v in extra.items()),
                ]
            await send(message)

        await super().__call__(scope, receive, with_headers)


def add_page(app: FastAPI) -> None:
    """Adds the page. FastAPI's own `/docs` must be off: it would load its script from another host."""
    app.include_router(router)
    app.mount("/static", Files(directory=STATIC), name="static")
