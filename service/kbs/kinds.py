"""The kinds of KB, and the formats that each can be read from and written to."""

from typing import cast

from ctp_core.kb.formats.registry import FORMATS, formats_of
from ctp_core.kb.knowledge_base import Kind
from service.errors import Invalid

FACTS, GRAPHS = "facts", "graphs"
KINDS = (FACTS, GRAPHS)


def kind_of(name: str) -> str:
    """Returns the kind of KB that a format is for; facts for an unknown format."""
    return FORMATS[name].kind if name in FORMATS else FACTS


def check_format(name: str, kind: str, *, written: bool = False) -> str:
    """The name itself; raises Invalid where a KB of this kind is not read from it, or not written to it."""
    # What everybody calls it: a line of JSON Lines is a fact in one kind and a graph in the other.
    name = "graphs" if (kind, name) == (GRAPHS, "jsonl") else name
    known = formats_of(cast(Kind, kind), written=written)
    if name not in known:
        raise Invalid("bad_format", f"format {name[:40]!r} is not one of kind {kind}: use {', '.join(known)}")
    return name


def default_format(kind: str) -> str:
    return formats_of(cast(Kind, kind), written=True)[0]


def suffix(name: str) -> str:
    return FORMATS[name].suffixes[0]
