"""From the body of `POST /models/import` to an archive: the file itself, or a form with it."""

import io
from dataclasses import dataclass
from typing import BinaryIO

from starlette.datastructures import UploadFile
from starlette.requests import Request

from service.errors import Invalid, UnsupportedMedia

MEDIA_TYPES = ("application/zip", "application/octet-stream")
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


@dataclass(frozen=True)
class Archive:
    """Not yet looked into; `name` is the name it is to get here, None for its own."""

    file: BinaryIO
    name: str | None = None


async def read_archive(request: Request) -> Archive:
    """The dependency of the route."""
    content_type = request.headers.get("content-type", "").split(";", maxsplit=1)[0].strip().lower()
    if content_type in MEDIA_TYPES:
        return Archive(io.BytesIO(await request.body()))
    if content_type != FORM:
        raise UnsupportedMedia("bad_media_type", f"send {MEDIA_TYPES[0]} or {FORM}, not {content_type[:80]!r}")
    form = await request.form(max_files=1, max_fields=1)
    file, name = form.get("file"), form.get("name")
    if not isinstance(file, UploadFile) or isinstance(name, UploadFile):
        raise Invalid("missing_file", "send the archive as `file`")
    return Archive(file.file, name or None)
