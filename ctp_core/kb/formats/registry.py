"""The table of formats for facts and graphs, and how the format of a file is recognised.

A new format is a file of its own in this folder, and a row here: uploads, exports, `GET /formats`, the page and the
terminal read this table.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Generic, TypeVar

from ctp_core.errors import DataError
from ctp_core.kb.formats.clutrr import clutrr_graphs
from ctp_core.kb.formats.csv import csv_rows, write_csv
from ctp_core.kb.formats.graphs_jsonl import jsonl_graphs, write_graphs_jsonl
from ctp_core.kb.formats.jsonl import jsonl_rows, write_jsonl
from ctp_core.kb.formats.prolog import prolog_rows, write_prolog
from ctp_core.kb.formats.rdf import ntriples_rows, turtle_rows, write_ntriples
from ctp_core.kb.formats.rows import FileLimits
from ctp_core.kb.formats.tsv import tsv_rows, write_tsv
from ctp_core.kb.knowledge_base import Kind

SNIFF_BYTES = 64 * 1024

Read = TypeVar("Read")  # a fact or a graph, with its line
Written = TypeVar("Written")


@dataclass(frozen=True)
class Format(Generic[Read, Written]):
    """How facts or graphs are read from a file, and written to one; `write` is None where they cannot be."""

    name: str
    title: str  # what people call it
    kind: Kind
    text: str  # a sentence for people
    media_type: str
    suffixes: tuple[str, ...]
    read: Callable[[BinaryIO, str, FileLimits], Iterator[Read]]
    write: Callable[[Iterable[Written]], Iterator[str]] | None
    first_line: re.Pattern[str]  # matches the first line of content where the name of the file does not tell
    # How weak that evidence is: formats are tried in this order. Of formats with one suffix, the last is the default.
    vagueness: int = 0

    def to_text(self, items: Iterable[Written]) -> Iterator[str]:
        """Raises DataError where the format can only be read."""
        if self.write is None:
            raise DataError(f"format {self.name!r} can only be read")
        return self.write(items)


FORMATS: dict[str, Format[Any, Any]] = {
    f.name: f
    for f in (
        Format(
            name="tsv",
            title="TSV",
            kind="facts",
            text="Three columns separated by tabs: subject, predicate, object.",
            media_type="text/tab-separated-values",
            suffixes=(".tsv",),
            read=tsv_rows,
            write=write_tsv,
            first_line=re.compile(r"[^\t]*\t[^\t]*\t[^\t]*$|#escaped$"),
            vagueness=2,
        ),
        Format(
            name="csv",
            title="CSV",
            kind="facts",
            text="Three columns separated by commas, with or without a header that names them.",
            media_type="text/csv",
            suffixes=(".csv",),
            read=csv_rows,
            write=write_csv,
            first_line=re.compile(r"[^,]+,[^,]+,[^,]+$|\""),
            vagueness=3,
        ),
        Format(
            name="ntriples",
            title="N-Triples",
            kind="facts",
            text="RDF as N-Triples, one statement on each line.",
            media_type="application/n-triples",
            suffixes=(".nt",),
            read=ntriples_rows,
            write=write_ntriples,
            first_line=re.compile(r"(?:<[^>]*>|_:\S+)\s*<[^>]*>\s*\S"),
        ),
        Format(
            name="turtle",
            title="Turtle",
            kind="facts",
            text="RDF as Turtle, with prefixes.",
            media_type="text/turtle",
            suffixes=(".ttl",),
            read=turtle_rows,
            write=write_ntriples,
            first_line=re.compile(r"(?i)@?(?:prefix|base)\s"),
        ),
        Format(
            name="jsonl",
            title="JSON Lines",
            kind="facts",
            text='JSON Lines, on each line ["subject", "predicate", "object"] or an object with these keys.',
            media_type="application/jsonl",
            suffixes=(".jsonl", ".ndjson"),
            read=jsonl_rows,
            write=write_jsonl,
            first_line=re.compile(r"[\[{]"),
            vagueness=1,
        ),
        Format(
            name="prolog",
            title="Prolog",
            kind="facts",
            text="Prolog facts such as parent(rick, beth).",
            media_type="text/x-prolog",
            suffixes=(".pl", ".pro", ".prolog"),
            read=prolog_rows,
            write=write_prolog,
            first_line=re.compile(r"(?:[a-z]\w*|'[^']*')\s*\(|:-|/\*"),
            vagueness=1,
        ),
        Format(
            name="clutrr",
            title="CLUTRR",
            kind="graphs",
            text="CLUTRR's own CSV, one family graph on each row.",
            media_type="text/csv",
            suffixes=(".csv",),
            read=clutrr_graphs,
            write=None,  # its columns hold stories, which are not kept
            first_line=re.compile(r"(?=.*story_edges)(?=.*edge_types)(?=.*query_edge)"),
        ),
        Format(
            name="graphs",
            title="graphs as JSON Lines",
            kind="graphs",
            text="JSON Lines, on each line one graph: its facts, a subject, an object and what relates them.",
            media_type="application/jsonl",
            suffixes=(".jsonl", ".ndjson"),
            read=jsonl_graphs,
            write=write_graphs_jsonl,
            first_line=re.compile(r'\s*\{.*"facts"'),
        ),
    )
}


def formats_of(kind: Kind, *, written: bool = False) -> tuple[str, ...]:
    """The names of the formats that KBs of this kind are read from, or written to."""
    return tuple(f.name for f in FORMATS.values() if f.kind == kind and (f.write or not written))


def recognise(file_name: str, head: bytes) -> str:
    """The name of the format, by the file's name or else by its first lines; raises DataError where neither tells."""
    text = head.removeprefix(b"\xef\xbb\xbf").decode(errors="replace")
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith(("# ", "%"))), "")
    name = file_name.lower().removesuffix(".gz")
    by_name = [f for f in FORMATS.values() if name.endswith(f.suffixes)]
    candidates = sorted(by_name or FORMATS.values(), key=lambda f: f.vagueness)
    for candidate in candidates:
        if candidate.first_line.match(first.strip(" ")):
            return candidate.name
    if by_name:
        return candidates[-1].name
    raise DataError(f"{file_name}: the format cannot be recognised; name one of {', '.join(FORMATS)}")
