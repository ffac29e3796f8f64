"""Reads the body of `POST /models/import`: the archive itself, or a form that contains it."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import BinaryIO, cast

from starlette.datastructures import FormData
from starlette.requests import Request

from service.errors import Invalid, UnsupportedMedia
from service.http.forms import MAX_TEXTS, known_fields, room_for
from service.http.places import Places

MEDIA_TYPES = ("application/zip", "application/octet-stream")
SPOOL_BYTES = 1024 * 1024
THREADS = 2
FORM = "multipart/form-data"
FILE = {"type": "string", "format": "binary"}
OPENAPI = {
    "requestBody": {
        "required": True,
        "content": {
            MEDIA_TYPES[0]: {"schema": FILE},
            FORM: {"schema": {"type": "object", "properties": {"file": FILE, "name": {"type": "string"}}}},
        },
    }
}


def importing(limit: int) -> Places:
    """The imports that one tenant may have under way in one API process."""
    detail = f"{limit} imports of yours are under way (CTP_MAX_IMPORTS): wait for one to end"
    return Places(limit, THREADS, "too_many_imports", detail)


@dataclass(frozen=True)
class Archive:
    """An archive that is not opened yet; `name` is the model's name here, None for the name in the archive."""

    file: BinaryIO
    name: str | None = None


async def read_archive(request: Request) -> AsyncIterator[Archive]:
    """FastAPI dependency that takes a place and reads the archive; a large one is kept on disk until the call ends."""
    with request.app.state.importing.place(request.scope["ctp.tenant"]):
        async with _archive(request) as archive:
            yield archive


@asynccontextmanager
async def _archive(request: Request) -> AsyncIterator[Archive]:
    content_type = request.headers.get("content-type", "").split(";", maxsplit=1)[0].strip().lower()
    if content_type in MEDIA_TYPES:
        with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as file:
            await write_pieces(request.stream(), cast("BinaryIO", file))
            file.seek(0)
            yield Archive(cast("BinaryIO", file))
    elif content_type == FORM:
        with room_for("the archive"):
            form = await request.form(max_files=1, max_fields=MAX_TEXTS)
        try:
            yield _from_form(form)
        finally:
            await form.close()
    else:
        raise UnsupportedMedia("bad_media_type", f"send {MEDIA_TYPES[0]} or {FORM}, not {content_type[:80]!r}")


async def write_pieces(pieces: AsyncIterator[bytes], file: BinaryIO) -> None:
    """Writes in threads, so that a slow disk blocks nobody else; raises StorageFull if the disk is full."""
    waiting = bytearray()
    with room_for("the archive"):
        async for piece in pieces:
            waiting += piece
            if len(waiting) >= SPOOL_BYTES:
                await asyncio.to_thread(file.write, waiting)
                waiting = bytearray()
        await asyncio.to_thread(file.write, waiting)


def _from_form(form: FormData) -> Archive:
    fields = known_fields(form, ("name",), ("file",))
    if not fields.files:
        raise Invalid("missing_file", "send the archive as `file`")
    return Archive(fields.files["file"].file, fields.texts.get("name"))
