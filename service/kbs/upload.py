"""Turns the body of `POST /kbs` into a KB, or into an error that names the first fault."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import BinaryIO

from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from ctp_core.kb.facts_builder import BuiltKB, FactsBuilder, KbLimits
from ctp_core.kb.formats.gzipped import ZipLimits, maybe_gunzipped
from ctp_core.kb.formats.registry import FORMATS, SNIFF_BYTES, recognise
from ctp_core.kb.formats.rows import FileLimits
from ctp_core.kb.graphs_builder import BuiltGraphs, GraphsBuilder
from ctp_core.kb.holdout import Holdout
from ctp_core.kb.knowledge_base import SPLITS
from service.errors import Invalid, UnsupportedMedia
from service.http.bodies import invalid, parse_json
from service.http.forms import MAX_TEXTS, known_fields, room_for
from service.http.places import Places
from service.kbs.kinds import GRAPHS, KINDS, check_format, kind_of
from service.kbs.schemas import KbCreate
from service.names import check_name
from service.settings import Settings

FILE_FIELDS = ("file", *SPLITS)
TEXT_FIELDS = ("name", "kind", "format", "holdout")
MAX_FILE_NAME = 200
BODY = "body"
THREADS = 2


def uploading(limit: int) -> Places:
    """The uploads of KBs that one tenant may have under way in one API process."""
    detail = f"{limit} uploads of yours are under way (CTP_MAX_UPLOADS): wait for one to end"
    return Places(limit, THREADS, "too_many_uploads", detail)


@dataclass(frozen=True)
class Upload:
    """The content of an upload: JSON facts, or files by split that are not read yet."""

    name: str
    kind: str | None = None
    format: str | None = None
    facts: list[tuple[str, str, str]] = field(default_factory=list)
    files: dict[str, UploadFile] = field(default_factory=dict)
    holdout: Holdout | None = None

    def build(self, settings: Settings) -> BuiltKB | BuiltGraphs:
        """Builds the KB and checks every line; raises ParseError at the first bad one."""
        limits = KbLimits(settings.max_facts, settings.max_symbols, settings.max_name_length)
        if not self.files:
            builder = FactsBuilder(limits)
            builder.add("train", ((number, *fact) for number, fact in enumerate(self.facts, 1)), BODY)
            return builder.build(self.holdout)
        files = [OpenFile.of(split, self.files[split], settings) for split in SPLITS if split in self.files]
        formats = [self.format or recognise(file.name, file.content().read(SNIFF_BYTES)) for file in files]
        kind = self.kind or kind_of(formats[0])
        readers = [(file, check_format(name, kind)) for file, name in zip(files, formats, strict=True)]
        made = GraphsBuilder(limits) if kind == GRAPHS else FactsBuilder(limits)
        for file, name in readers:
            made.add(file.split, FORMATS[name].read(file.content(), file.name, file.limits), file.name)
        return made.build(self.holdout)


@dataclass(frozen=True)
class OpenFile:
    """One file of an upload; `content` reads it from the start and unzips it."""

    split: str
    name: str
    stream: BinaryIO
    limits: FileLimits
    zip_limits: ZipLimits

    @classmethod
    def of(cls, split: str, upload: UploadFile, settings: Settings) -> "OpenFile":
        return cls(
            split,
            (upload.filename or split)[:MAX_FILE_NAME],
            upload.file,
            FileLimits(settings.max_line_bytes, settings.max_name_length),
            ZipLimits(settings.max_decompressed_bytes, settings.max_compression_ratio),
        )

    def content(self) -> BinaryIO:
        return maybe_gunzipped(self.stream, self.name, self.zip_limits)


async def read_upload(request: Request) -> AsyncIterator[Upload]:
    """FastAPI dependency that takes a place and reads the body as JSON or multipart; files are kept on disk."""
    with request.app.state.uploading.place(request.scope["ctp.tenant"]):
        async with _upload(request) as upload:
            yield upload


@asynccontextmanager
async def _upload(request: Request) -> AsyncIterator[Upload]:
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type == "application/json":
        # Not `read_json`: a name that cannot be stored is reported with its line later.
        body = await parse_json(KbCreate, await request.body(), tenant=request.scope["ctp.tenant"])
        yield Upload(check_name(body.name), body.kind, facts=body.facts, holdout=body.holdout)
    elif content_type == "multipart/form-data":
        with room_for("the upload"):
            form = await request.form(max_files=len(FILE_FIELDS), max_fields=MAX_TEXTS)
        try:
            yield _from_form(form)
        finally:
            await form.close()
    else:
        detail = f"send application/json or multipart/form-data, not {content_type[:80]!r}"
        raise UnsupportedMedia("bad_media_type", detail)


def _from_form(form: FormData) -> Upload:
    fields = known_fields(form, TEXT_FIELDS, FILE_FIELDS)
    texts, files = fields.texts, fields.files
    if not files or ("file" in files) == ("train" in files) or ("file" in files and len(files) > 1):
        raise Invalid("missing_file", "send either one `file`, or `train` with optional `valid` and `test`")
    if "file" in files:
        files = {"train": files["file"]}
    kind = texts.get("kind")
    if kind is not None and kind not in KINDS:
        raise Invalid("bad_kind", f"kind {kind[:40]!r} is not known: use {', '.join(KINDS)}")
    if "format" in texts:
        check_format(texts["format"], kind or kind_of(texts["format"]))
    name, holdout = check_name(texts.get("name", "")), _holdout(texts.get("holdout"))
    return Upload(name, kind, texts.get("format"), files=files, holdout=holdout)


def _holdout(text: str | None) -> Holdout | None:
    """Parses `{"valid": 0.05, "test": 0.1}`; raises Invalid."""
    try:
        return None if not text else Holdout.model_validate_json(text)
    except ValidationError as error:
        raise invalid(error, Holdout, "holdout") from None
