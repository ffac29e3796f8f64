"""Packs a model into one file and unpacks it: a zip of the model's two files and a card that describes it.

Nothing in an archive is trusted. Names are compared with the known ones and never used as paths; sizes are checked
before and during unpacking; checksums are verified. Whether the tensors really form a model is checked by asking
it in a query worker (`transfer.check_answers`).
"""

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, BinaryIO, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

from ctp_core.errors import ArtifactError, ConfigError, DataError
from ctp_core.manifest import MANIFEST, TENSORS, decode_manifest
from ctp_core.methods import foreign_config
from ctp_core.rules import MAX_BODY
from ctp_core.rules_from_atoms import rule_from_values
from service.errors import Invalid, PayloadTooLarge
from service.files.storage import Files
from service.http.bodies import first_faults, holds_nul
from service.http.pieces import LongList, flat, rest_and_pieces
from service.models.held_rules import HeldRules, held
from service.models.schemas import Tags
from service.settings import MAX_RULES, MIB, NAME_LIMIT, Settings

CARD = "model.json"
MEMBERS = (CARD, MANIFEST, TENSORS)
ZIP64_BYTES = 2 * 1024 * MIB - 64 * MIB  # a little less than a member may have: what does not shrink grows a little
MAX_TRIALS, MAX_SETTINGS = 1000, 200  # more than any search tries, and than any method has
ENCRYPTED = 0x1
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others may ask for gigabytes before they unpack a byte
MAX_ARGUMENT = 2 * NAME_LIMIT + 2  # a constant is quoted, and any of its characters may be escaped
# A zip ends with a record of its directory's length; a 64-bit zip has a locator before that record.
END, LOCATOR = b"PK\x05\x06", b"PK\x06\x07"
END_BYTES, LOCATOR_BYTES = 22, 20
DIRECTORY_SIZE = slice(12, 16)
MAX_DIRECTORY_BYTES = 4096
UNREADABLE = (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, OSError)


class CardAtom(BaseModel):
    model_config = ConfigDict(extra="forbid")

    predicate: str = Field(min_length=1, max_length=NAME_LIMIT)
    subject: str = Field(min_length=1, max_length=MAX_ARGUMENT)
    object: str = Field(min_length=1, max_length=MAX_ARGUMENT)


class CardRule(BaseModel):
    """A rule without its text and id, which are derived from its atoms, as is its template, which is not read."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    head: CardAtom
    body: list[CardAtom] = Field(min_length=1, max_length=MAX_BODY)
    template: str = Field(max_length=16)
    confidence: float = Field(ge=0, le=1)
    weight: float | None = None
    support: int | None = Field(None, ge=0, le=2**31 - 1)
    precision: float | None = Field(None, ge=0, le=1)
    approximate: bool = False


Setting = bool | int | float | Annotated[str, Field(max_length=256)] | None


SettingName = Annotated[str, Field(max_length=64)]
Parts = Annotated[dict[SettingName, Setting], Field(max_length=MAX_SETTINGS)]  # such as the widths of templates


class CardTrial(BaseModel):
    """Settings that were tried before the model was trained."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    settings: dict[SettingName, Setting | Parts | list[Setting]] = Field(max_length=MAX_SETTINGS)
    metric: str = Field(max_length=64)
    value: float
    cpu_seconds: float = Field(ge=0)
    chosen: bool = False


class Card(BaseModel):
    """The registry's description of a version."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    id: str = Field(max_length=32)
    name: str = Field(max_length=64)
    version: int = Field(ge=1, le=2**31 - 1)
    kind: str = Field(max_length=16)
    preset: str | None = Field(None, max_length=32)
    metrics: dict[Annotated[str, Field(max_length=64)], float] = Field(max_length=100)
    trials: list[CardTrial] = Field(default_factory=list, max_length=MAX_TRIALS)
    tags: Tags
    kb_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    code_version: str = Field(max_length=64)
    rules: Annotated[list[CardRule], FailFast()] = Field(max_length=MAX_RULES)


def _too_many_rules(limit: int) -> Invalid:
    return Invalid("bad_archive", f"it has more than {limit} rules")


_FLAT = flat(MAX_ARGUMENT)
_ATOM = rb"\{(?:%b){0,20}+\}" % _FLAT
_BODY = rb"\[(?:%b|%b){0,%d}+\]" % (_FLAT, _ATOM, 4 * MAX_BODY)
# A hundred thousand rules at once would hold up all other calls for seconds.
RULES = LongList(
    "rules",
    rb"\s*+\{(?:%b|%b|%b){0,80}+\}" % (_FLAT, _ATOM, _BODY),
    100,
    "an object with `head` and `body`",
    _too_many_rules,
    rb"(?=\s*\{)",  # a setting that was tried may be called the same, but holds no objects
)


Sized = tuple[int, Iterable[bytes]]  # a file: its size and its pieces


def pack(card: Card, rules: Iterable[Sequence[Mapping[str, Any]]], files: Mapping[str, Sized]) -> Iterator[bytes]:
    """Yields the archive piece by piece; `rules`, some at a time, have the fields of CardRule and are not checked."""
    sent = Outbox()
    # The fastest level: weights hardly shrink, whatever the effort. Members that are opened by name have a fixed date,
    # so that the same model always gives the same file.
    with zipfile.ZipFile(cast("BinaryIO", sent), "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, (size, pieces) in {CARD: (0, _described(card, rules)), **files}.items():
            with archive.open(name, "w", force_zip64=size > ZIP64_BYTES) as file:
                for piece in pieces:
                    file.write(piece)
                    yield sent.taken()
    yield sent.taken()


def _described(card: Card, rules: Iterable[Sequence[Mapping[str, Any]]]) -> Iterator[bytes]:
    """Yields the card with these rules as JSON: to write a hundred thousand at once would hold up all other calls."""
    yield card.model_dump_json(exclude={"rules"}).encode().removesuffix(b"}") + b',"rules":['
    between = b""
    for some in filter(None, rules):
        yield between + json.dumps(some, separators=(",", ":"))[1:-1].encode()
        between = b","
    yield b"]}"


class Outbox:
    """A file that is written from start to end and whose content is taken away meanwhile."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def write(self, content: bytes) -> int:
        self._waiting += content
        return len(content)

    def flush(self) -> None:
        pass

    def taken(self) -> bytes:
        taken, self._waiting = bytes(self._waiting), bytearray()
        return taken


class Unpacked(NamedTuple):
    """What is in an archive: the card without its rules, its rules, the model's files and its config."""

    card: Card
    rules: HeldRules
    files: Files
    config: dict[str, Any]


def unpack(file: BinaryIO, settings: Settings) -> Unpacked:
    """Returns what is in an archive; raises Invalid or PayloadTooLarge."""
    try:
        size = _check_directory(file)
        with zipfile.ZipFile(file) as archive:
            members = _members(archive, settings.max_model_bytes)
            _check_compression(list(members.values()), size, settings.max_compression_ratio)
            contents = {name: _read(archive, member) for name, member in members.items()}
    except UNREADABLE as error:
        raise _bad(f"it is not a readable zip archive ({type(error).__name__})") from None
    card, rules = _card(contents.pop(CARD))
    return Unpacked(card, rules, contents, _config(card, contents))


def _check_directory(file: BinaryIO) -> int:
    """Returns the size of the file; refuses a long directory, which the library would read into memory."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - END_BYTES - LOCATOR_BYTES))
    tail = file.read()
    end = tail[-END_BYTES:]
    if len(end) < END_BYTES or not end.startswith(END):
        raise _bad("it does not end like a zip archive")
    if tail.startswith(LOCATOR) or int.from_bytes(end[DIRECTORY_SIZE], "little") > MAX_DIRECTORY_BYTES:
        raise _bad(f"it must hold exactly {', '.join(MEMBERS)}")
    return size


def _check_compression(members: list[zipfile.ZipInfo], size: int, max_ratio: float) -> None:
    """Refuses extreme compression: weights hardly shrink, so it can only be meant to fill the memory."""
    if sum(member.compress_size for member in members) > size:
        raise _bad("its members are larger than the archive itself")
    for member in members:
        if member.file_size > max(MIB, max_ratio * member.compress_size):
            raise _bad(f"{member.filename} is compressed more than {max_ratio:g} times (CTP_MAX_COMPRESSION_RATIO)")


def _members(archive: zipfile.ZipFile, max_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """Returns the members; raises unless they are exactly those of `pack`, with declared sizes within the limit."""
    found = {member.filename: member for member in archive.infolist()}
    if len(archive.infolist()) != len(MEMBERS) or set(found) != set(MEMBERS):
        raise _bad(f"it must hold exactly {', '.join(MEMBERS)}")
    if any(member.flag_bits & ENCRYPTED for member in found.values()):
        raise _bad("a member is encrypted")
    if any(member.compress_type not in COMPRESSIONS for member in found.values()):
        raise _bad("a member is neither stored nor deflated")
    if sum(member.file_size for member in found.values()) > max_bytes:
        raise PayloadTooLarge("model_too_large", f"the model is larger than {max_bytes} bytes (CTP_MAX_MODEL_BYTES)")
    return found


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Reads a member; raises if it is not as long as declared, without unpacking the rest."""
    with archive.open(member) as stream:
        content = stream.read(member.file_size)
        if len(content) != member.file_size or stream.read(1):
            raise _bad(f"{member.filename} is not as long as the archive says")
    return content


def _card(content: bytes) -> tuple[Card, HeldRules]:
    if holds_nul(content):
        raise _bad(f"{CARD}: a string contains the character NUL")
    try:
        card, pieces = rest_and_pieces(Card, content, MAX_RULES, RULES)
        return card, held([rule_from_values(one.model_dump()) for one in piece] for piece in pieces)
    except ValidationError as error:
        fault = first_faults(error)[0]
        raise _bad(f"{CARD}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
    except (Invalid, DataError) as error:
        raise _bad(f"{CARD}: {error.detail if isinstance(error, Invalid) else error}") from None


def _config(card: Card, files: Files) -> dict[str, Any]:
    try:
        manifest = decode_manifest(files)
    except ArtifactError as error:
        raise _bad(str(error)) from None
    if manifest.get("kind") != card.kind:
        raise _bad(f"{CARD} and {MANIFEST} do not agree on the kind of the model")
    return _checked_config(manifest)


def _checked_config(manifest: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return foreign_config(manifest["kind"], manifest["config"]).model_dump(mode="json")
    except ValidationError as error:
        fault = first_faults(error)[0]
        place = ".".join(map(str, ("config", *fault["loc"])))
        raise _bad(f"{MANIFEST}: {place}: {fault['msg']}") from None
    except (KeyError, TypeError, AttributeError, ConfigError):
        raise _bad(f"{MANIFEST} holds no config that this version knows") from None


def _bad(reason: str) -> Invalid:
    return Invalid("bad_archive", f"the archive cannot be imported: {reason}; GET /models/{{id}}/export makes one")
