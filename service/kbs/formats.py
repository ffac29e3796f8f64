"""Which formats each kind of KB is read from and written to."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ctp_core.datasets.formats import FORMATS
from service.errors import Invalid

KINDS = ("facts",)


def default_format(kind: str) -> str:
    return {"facts": "tsv"}[kind]


def check_format(name: str, kind: str) -> str:
    """The name itself; raises Invalid where there is no such format for this kind."""
    known = tuple(FORMATS)
    if name not in known:
        raise Invalid("bad_format", f"format {name[:40]!r} is not known for kind {kind}: use {', '.join(known)}")
    return name


def writer(name: str, kind: str) -> Callable[[Iterable[Any]], Iterator[str]]:
    return FORMATS[check_format(name, kind)].write


def media_type(name: str) -> str:
    return FORMATS[name].media_type


def suffix(name: str) -> str:
    return FORMATS[name].suffixes[0]
