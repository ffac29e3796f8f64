"""From the body of `POST /kbs` to a KB: what is accepted, and the first thing that is wrong with it."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from ctp_core.datasets.builder import BuiltKB, FactsBuilder, KbLimits
from ctp_core.datasets.formats import FORMATS, SNIFF_BYTES, recognise
from ctp_core.datasets.gzipped import ZipLimits, maybe_gunzipped
from ctp_core.datasets.kb import SPLITS
from ctp_core.datasets.rows import FileLimits, Row
from service.bodies import parse_json
from service.errors import Invalid, UnsupportedMedia
from service.kbs.formats import KINDS, check_format
from service.kbs.schemas import KbCreate
from service.names import check_name
from service.settings import Settings

FILE_FIELDS = ("file", *SPLITS)
TEXT_FIELDS = ("name", "kind", "format")
MAX_FORM_FIELDS = 16
MAX_FILE_NAME = 200
BODY = "body"


@dataclass(frozen=True)
class Upload:
    """A KB on its way in: JSON facts, or files by split, not yet read."""

    name: str
    kind: str | None = None
    format: str | None = None
    facts: list[tuple[str, str, str]] = field(default_factory=list)
    files: dict[str, UploadFile] = field(default_factory=dict)

    def build(self, settings: Settings) -> BuiltKB:
        """The KB, each line checked. Raises ParseError at the first bad one."""
        limits = KbLimits(settings.max_facts, settings.max_symbols, settings.max_name_length)
        builder = FactsBuilder(limits)
        if not self.files:
            builder.add("train", ((number, *fact) for number, fact in enumerate(self.facts, 1)), BODY)
        for split in (split for split in SPLITS if split in self.files):
            file = (self.files[split].filename or split)[:MAX_FILE_NAME]
            builder.add(split, self._rows(self.files[split].file, file, settings), file)
        return builder.build()

    def _rows(self, stream: BinaryIO, file: str, settings: Settings) -> Iterator[Row]:
        zip_limits = ZipLimits(settings.max_decompressed_bytes, settings.max_compression_ratio)
        name = self.format or recognise(file, maybe_gunzipped(stream, file, zip_limits).read(SNIFF_BYTES))
        check_format(name, self.kind or "facts")
        content = maybe_gunzipped(stream, file, zip_limits)
        return FORMATS[name].read(content, file, FileLimits(settings.max_line_bytes, settings.max_name_length))


async def read_upload(request: Request) -> AsyncIterator[Upload]:
    """The dependency of `POST /kbs`: JSON or multipart, by its content type. Files are on disk, not in memory."""
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type == "application/json":
        body = parse_json(KbCreate, await request.body())
        yield Upload(check_name(body.name), body.kind, facts=body.facts)
    elif content_type == "multipart/form-data":
        async with request.form(max_files=len(FILE_FIELDS), max_fields=MAX_FORM_FIELDS) as form:
            yield _from_form(form)
    else:
        detail = f"send application/json or multipart/form-data, not {content_type[:80]!r}"
        raise UnsupportedMedia("bad_media_type", detail)


def _from_form(form: FormData) -> Upload:
    files = {key: value for key, value in form.items() if isinstance(value, UploadFile)}
    texts = {key: value for key, value in form.items() if isinstance(value, str) and value}
    unknown = sorted((set(files) - set(FILE_FIELDS)) | (set(texts) - set(TEXT_FIELDS)))
    if unknown:
        known = f"{', '.join(TEXT_FIELDS)} and the files {', '.join(FILE_FIELDS)}"
        raise Invalid("unknown_field", f"unknown form field {unknown[0][:80]!r}; known are {known}")
    if not files or ("file" in files) == ("train" in files) or ("file" in files and len(files) > 1):
        raise Invalid("missing_file", "send either one `file`, or `train` and, where there are any, `valid` and `test`")
    if "file" in files:
        files = {"train": files["file"]}
    kind = texts.get("kind")
    if kind is not None and kind not in KINDS:
        raise Invalid("bad_kind", f"kind {kind[:40]!r} is not known: use {', '.join(KINDS)}")
    if "format" in texts:
        check_format(texts["format"], kind or "facts")
    return Upload(check_name(texts.get("name", "")), kind, texts.get("format"), files=files)
