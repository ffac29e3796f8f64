"""HTTP underneath the client: one connection pool, the key in a header, problems as exceptions."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from ctp_client.errors import ApiError, BrokenOff, Unreachable
from ctp_client.types import Page

M = TypeVar("M", bound=BaseModel)
PAGE_SIZE = 500
# Threads may share a client. A pool that closes surplus connections can close one that another thread has just
# taken up, so none is surplus.
LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=None)
NO_ERROR = 400


def segment(name: str) -> str:
    """A name as one segment of a path, whatever is in it; `@` stays readable."""
    return quote(name, safe="@")


class Transport:
    """Calls that return a checked answer, or raise a ClientError."""

    def __init__(self, url: str, key: str | None, timeout: float) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.url = url.rstrip("/")
        self.http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout, limits=LIMITS)

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Raises Unreachable or ApiError."""
        with self._reaching():
            response = self.http.request(method, path, **options)
        if response.status_code >= NO_ERROR:
            raise ApiError.of(response)
        return response

    @contextmanager
    def stream(self, path: str, **options: Any) -> Iterator[httpx.Response]:
        """An answer that is read as it comes."""
        with self._reaching(), self.http.stream("GET", path, **options) as response:
            if response.status_code >= NO_ERROR:
                response.read()
                raise ApiError.of(response)
            yield response

    def download(self, path: str, to: Path, **options: Any) -> None:
        """Writes an answer to a file as it comes; a file that is not whole is never left under its name."""
        with self.stream(path, **options) as response, _written_whole(to) as file:
            try:
                for chunk in response.iter_bytes():
                    file.write(chunk)
            except httpx.RemoteProtocolError as error:
                raise BrokenOff(str(error)) from error

    def get(self, model: type[M], path: str, **params: Any) -> M:
        return model.model_validate(self.send("GET", path, params=_given(params)).json())

    def post(self, model: type[M], path: str, body: dict[str, Any], **params: Any) -> M:
        return model.model_validate(self.send("POST", path, json=body, params=_given(params)).json())

    def items(self, model: type[M], path: str, /, limit: int | None = None, **params: Any) -> Iterator[M]:
        """Every item of a list, page after page, up to `limit`."""
        left = limit
        cursor: str | None = None
        while left is None or left > 0:
            size = PAGE_SIZE if left is None else min(left, PAGE_SIZE)
            answer = self.send("GET", path, params=_given({**params, "limit": size, "cursor": cursor})).json()
            page = Page[model].model_validate(answer)  # type: ignore[valid-type]
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return
            left = None if left is None else left - len(page.items)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            raise Unreachable(self.url, str(error) or type(error).__name__) from error


@contextmanager
def _written_whole(to: Path) -> Iterator[BinaryIO]:
    """A file that gets its name when all of it is there. What is no plain file (a pipe, a link to one) has to stay
    what it is, and is written straight away."""
    if to.is_symlink() or (to.exists() and not to.is_file()):
        with to.open("wb") as file:
            yield file
        return
    part = to.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            yield file
        part.replace(to)
    finally:
        part.unlink(missing_ok=True)


def _given(params: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if value is not None}
