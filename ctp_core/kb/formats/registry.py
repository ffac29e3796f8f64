"""The formats of facts in one table, and how a file tells which one it is."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ctp_core.errors import DataError
from ctp_core.kb.formats.csv import csv_rows, write_csv
from ctp_core.kb.formats.jsonl import jsonl_rows, write_jsonl
from ctp_core.kb.formats.prolog import prolog_rows, write_prolog
from ctp_core.kb.formats.rdf import ntriples_rows, turtle_rows, write_ntriples
from ctp_core.kb.formats.rows import FileLimits, Row
from ctp_core.kb.formats.tsv import tsv_rows, write_tsv
from ctp_core.symbols import Fact

SNIFF_BYTES = 64 * 1024


@dataclass(frozen=True)
class Format:
    """How facts are read from and written to a file."""

    name: str
    media_type: str
    suffixes: tuple[str, ...]
    read: Callable[[BinaryIO, str, FileLimits], Iterator[Row]]
    write: Callable[[Iterable[Fact]], Iterator[str]]


FORMATS = {
    f.name: f
    for f in (
        Format("tsv", "text/tab-separated-values", (".tsv",), tsv_rows, write_tsv),
        Format("csv", "text/csv", (".csv",), csv_rows, write_csv),
        Format("ntriples", "application/n-triples", (".nt",), ntriples_rows, write_ntriples),
        Format("turtle", "text/turtle", (".ttl",), turtle_rows, write_ntriples),
        Format("jsonl", "application/jsonl", (".jsonl", ".ndjson"), jsonl_rows, write_jsonl),
        Format("prolog", "text/x-prolog", (".pl", ".pro", ".prolog"), prolog_rows, write_prolog),
    )
}

CLUTRR, GRAPHS = "clutrr", "graphs"
GRAPH_FORMATS = (CLUTRR, GRAPHS)
_CLUTRR_COLUMNS = ("story_edges", "edge_types", "query_edge")
_PATTERNS = {
    "turtle": re.compile(r"(?i)@?(?:prefix|base)\s"),
    "ntriples": re.compile(r"(?:<[^>]*>|_:\S+)\s*<[^>]*>\s*\S"),
    "prolog": re.compile(r"(?:[a-z]\w*|'[^']*')\s*\(|:-|/\*"),
    "jsonl": re.compile(r"[\[{]"),
    "tsv": re.compile(r"[^\t]*\t[^\t]*\t[^\t]*$|#escaped$"),
    "csv": re.compile(r"[^,]+,[^,]+,[^,]+$|\""),
}


def recognise(file_name: str, head: bytes) -> str:
    """The name of the format, by the file's name or else by its first lines; raises DataError where neither tells."""
    text = head.removeprefix(b"\xef\xbb\xbf").decode(errors="replace")
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith(("# ", "%"))), "")
    name = file_name.lower().removesuffix(".gz")
    by_name = next((f.name for f in FORMATS.values() if name.endswith(f.suffixes)), None)
    if by_name in ("csv", None) and all(column in first for column in _CLUTRR_COLUMNS):
        return CLUTRR
    if by_name in ("jsonl", None) and first.lstrip().startswith("{") and '"facts"' in first:
        return GRAPHS
    if by_name is not None:
        return by_name
    for candidate, pattern in _PATTERNS.items():
        if pattern.match(first.strip(" ")):
            return candidate
    raise DataError(f"{file_name}: the format cannot be told; name it: {', '.join((*FORMATS, *GRAPH_FORMATS))}")
