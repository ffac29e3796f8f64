"""The formats that each kind of KB can be read from and written to."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ctp_core.kb.formats.graphs_jsonl import write_graphs_jsonl
from ctp_core.kb.formats.registry import FORMATS
from ctp_core.kb.graphs_builder import READERS
from service.errors import Invalid

FACTS, GRAPHS = "facts", "graphs"
KINDS = (FACTS, GRAPHS)
# Graphs can be written in one format only: CLUTRR's columns need the stories, which are not stored.
READABLE = {FACTS: tuple(FORMATS), GRAPHS: tuple(READERS)}
WRITABLE = {FACTS: tuple(FORMATS), GRAPHS: ("graphs",)}


def kind_of(format_name: str) -> str:
    return GRAPHS if format_name in READERS else FACTS


def check_format(name: str, kind: str, known: dict[str, tuple[str, ...]] = READABLE) -> str:
    """Returns the name of the format; raises Invalid if this kind of KB does not have it."""
    # Users say `jsonl` for both kinds: a line is a fact in one kind and a graph in the other.
    name = "graphs" if (kind, name) == (GRAPHS, "jsonl") else name
    if name not in known[kind]:
        raise Invalid("bad_format", f"kind {kind} has no format {name[:40]!r}: use {', '.join(known[kind])}")
    return name


def default_format(kind: str) -> str:
    return WRITABLE[kind][0]


def writer(name: str) -> Callable[[Iterable[Any]], Iterator[str]]:
    return write_graphs_jsonl if name == "graphs" else FORMATS[name].write


def media_type(name: str) -> str:
    return FORMATS["jsonl" if name == "graphs" else name].media_type


def suffix(name: str) -> str:
    return FORMATS["jsonl" if name == "graphs" else name].suffixes[0]
