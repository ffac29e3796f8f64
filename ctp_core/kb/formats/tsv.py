"""Tab-separated facts, one per line: subject, predicate, object. Names are written as they are, spaces included.

A name with a tab or a line end must be escaped. A file with such a name begins with the line `#escaped`, which has no
tabs and so is not a fact; in the lines after it, `\\t`, `\\n`, `\\r` and `\\\\` stand for those characters.
"""

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from ctp_core.errors import DataError, ParseError
from ctp_core.kb.formats.rows import FileLimits, Row, read_lines
from ctp_core.symbols import Fact, check_name

COLUMNS = 3
ESCAPED = "#escaped"
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\\\": "\\"}
_TO_ESCAPES = str.maketrans({value: key for key, value in _ESCAPES.items()})
_ESCAPE = re.compile(r"\\(?:t|n|r|\\)")
UNSAFE = re.compile(r"[\t\n\r]|^\ufeff")


def tsv_rows(stream: BinaryIO, file: str, limits: FileLimits) -> Iterator[Row]:
    """Yields rows in the order of the file, without blank lines. Raises ParseError at the first bad line."""
    escaped = False
    for number, line in read_lines(stream, file, limits):
        columns = line.split("\t")
        if len(columns) == COLUMNS:
            if escaped:
                columns = [_ESCAPE.sub(lambda match: _ESCAPES[match[0]], column) for column in columns]
            yield number, columns[0], columns[1], columns[2]
        elif number == 1 and line == ESCAPED:
            escaped = True
        elif len(columns) > 1 or not (not line or line.isspace()):
            reason = f"expected {COLUMNS} columns separated by tabs (subject, predicate, object), found {len(columns)}"
            raise ParseError(file, number, reason)


def write_tsv(facts: Iterable[Fact], escape: bool = False) -> Iterator[str]:
    """Writes one line per fact; `escape` is needed where a name has a tab or a line end."""
    if escape:
        yield f"{ESCAPED}\n"
    for fact in facts:
        yield "\t".join(name.translate(_TO_ESCAPES) for name in fact) + "\n" if escape else "\t".join(fact) + "\n"


def read_tsv(stream: BinaryIO, file: str) -> Iterator[Fact]:
    """Facts with their names checked; raises ParseError at the first bad line."""
    for number, *names in tsv_rows(stream, file, FileLimits()):
        try:
            yield Fact(*(check_name(name) for name in names))
        except DataError as error:
            raise ParseError(file, number, str(error)) from None
