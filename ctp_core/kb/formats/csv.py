"""Comma-separated facts (RFC 4180), with or without a header that names the columns."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from ctp_core.errors import ParseError
from ctp_core.kb.formats.rows import FileLimits, Row, read_lines
from ctp_core.symbols import Fact

HEADER = ("subject", "predicate", "object")
OTHER_HEADERS = (("head", "relation", "tail"), ("source", "relation", "target"))
COLUMNS = 3


def csv_rows(stream: BinaryIO, file: str, limits: FileLimits) -> Iterator[Row]:
    """Yields rows, their columns in the order of the header where there is one; raises ParseError at a bad row."""
    # Puts the line ends back: inside quotes they belong to the name.
    reader = csv.reader((f"{line}\n" for line in _raw_lines(stream, file, limits)), strict=True)
    order = (0, 1, 2)
    try:
        for index, row in enumerate(reader):
            if not row:
                continue
            if len(row) != COLUMNS:
                reason = (
                    f"expected {COLUMNS} columns separated by commas (subject, predicate, object), found {len(row)}"
                )
                raise ParseError(file, reader.line_num, reason)
            header = _header(row) if index == 0 else None
            if header is not None:
                order = header
                continue
            yield reader.line_num, row[order[0]], row[order[1]], row[order[2]]
    except csv.Error as error:
        raise ParseError(file, max(1, reader.line_num), f"not CSV: {error}") from None


def _raw_lines(stream: BinaryIO, file: str, limits: FileLimits) -> Iterator[str]:
    return (line for _, line in read_lines(stream, file, limits, keep_returns=True))


def _header(row: list[str]) -> tuple[int, int, int] | None:
    """The columns of subject, predicate and object; None where the row is a fact."""
    names = [name.strip().lower() for name in row]
    for header in (HEADER, *OTHER_HEADERS):
        if set(names) == set(header):
            subject, predicate, object_ = (names.index(name) for name in header)
            return subject, predicate, object_
    return None


def write_csv(facts: Iterable[Fact]) -> Iterator[str]:
    """Writes a header and rows; names with commas, quotes or line ends are quoted."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(HEADER)
    for fact in facts:
        writer.writerow(fact)
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()
