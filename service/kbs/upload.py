"""From the body of `POST /kbs` to facts: what is accepted, and the first thing that is wrong with it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import BinaryIO

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from ctp_core.datasets.kb import SPLITS
from ctp_core.datasets.names import check_name as check_symbol
from ctp_core.datasets.tsv import read_tsv
from ctp_core.errors import DataError, ParseError
from ctp_core.symbols import Fact
from service.bodies import parse_json
from service.errors import Invalid, PayloadTooLarge, UnsupportedMedia
from service.kbs.schemas import KbCreate
from service.names import check_name
from service.settings import Settings

FILE_FIELDS = ("file", *SPLITS)
MAX_FORM_FIELDS = 16
BODY = "body"


@dataclass(frozen=True)
class Upload:
    """A KB on its way in: JSON facts, or files by split, not yet read."""

    name: str
    kind: str = "facts"
    format: str = "tsv"
    facts: list[tuple[str, str, str]] = field(default_factory=list)
    files: dict[str, UploadFile] = field(default_factory=dict)

    def splits(self, settings: Settings) -> dict[str, list[Fact]]:
        """Facts by split, each checked. Raises ParseError at the first bad line."""
        if not self.files:
            return {"train": self._limited(_json_facts(self.facts, settings.max_name_length), settings)}
        return {split: self._limited(_file_facts(upload, settings), settings) for split, upload in self.files.items()}

    @staticmethod
    def _limited(facts: Iterable[Fact], settings: Settings) -> list[Fact]:
        limited: list[Fact] = []
        for fact in facts:
            if len(limited) == settings.max_facts:
                raise PayloadTooLarge("too_many_facts", f"a KB may have {settings.max_facts} facts at most")
            limited.append(fact)
        return limited


async def read_upload(request: Request) -> Upload:
    """The dependency of `POST /kbs`: JSON or multipart, by its content type."""
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type == "application/json":
        body = parse_json(KbCreate, await request.body())
        return Upload(check_name(body.name), body.kind, facts=body.facts)
    if content_type == "multipart/form-data":
        return _from_form(await request.form(max_files=len(FILE_FIELDS), max_fields=MAX_FORM_FIELDS))
    raise UnsupportedMedia("bad_media_type", f"send application/json or multipart/form-data, not {content_type!r}")


def _from_form(form: FormData) -> Upload:
    files = {key: value for key, value in form.items() if isinstance(value, UploadFile)}
    unknown = sorted(set(form) - {"name", "kind", "format", *FILE_FIELDS})
    if unknown:
        raise Invalid(
            "unknown_field",
            f"unknown form field {unknown[0]!r}; known are name, kind, format, file, train, valid, test",
        )
    if not files or ("file" in files) == ("train" in files):
        raise Invalid("missing_file", "send either one `file`, or `train` and, where there are any, `valid` and `test`")
    if "file" in files:
        files = {"train": files["file"]}
    kind, format_ = str(form.get("kind") or "facts"), str(form.get("format") or "tsv")
    if kind != "facts":
        raise Invalid("bad_kind", f"kind {kind!r} is not known: use 'facts'")
    if format_ != "tsv":
        raise Invalid("bad_format", f"format {format_!r} is not known: use 'tsv'")
    return Upload(check_name(str(form.get("name") or "")), kind, format_, files=files)


def _json_facts(rows: list[tuple[str, str, str]], max_name_length: int) -> Iterable[Fact]:
    for number, row in enumerate(rows, 1):
        try:
            yield Fact(*(check_symbol(name, max_name_length) for name in row))
        except DataError as error:
            raise ParseError(BODY, number, str(error)) from None


def _file_facts(upload: UploadFile, settings: Settings) -> Iterable[Fact]:
    stream: BinaryIO = upload.file
    return read_tsv(stream, upload.filename or "file", settings.max_name_length)
