"""Facts as RDF: N-Triples and Turtle.

The name of an IRI is the IRI without its brackets; a literal or a blank node is named as N-Triples writes it. Any other
name is written as `<urn:ctp:name:…>`, percent-encoded, and is read back unchanged.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import BinaryIO, cast
from urllib.parse import quote, unquote

import pyoxigraph

from ctp_core.errors import ParseError
from ctp_core.kb.formats.rows import FileLimits, Row
from ctp_core.symbols import Fact

OURS = "urn:ctp:name:"
# The parser names nodes without a label at random; a file must give the same names each time it is read.
_ANONYMOUS = re.compile(r"[a-f][0-9a-f]{23,31}")
_BLANK = re.compile(r"_:[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9_-])?")
CACHED_NAMES = 100_000


class LineGuard:
    """A stream that raises ParseError at a line that is too long, because the parser would hold all of it."""

    def __init__(self, stream: BinaryIO, file: str, limits: FileLimits) -> None:
        self.stream, self.file, self.limits = stream, file, limits
        self._lines, self._length = 0, 0

    def read(self, size: int = -1) -> bytes:
        block = self.stream.read(size)
        start = 0
        while (end := block.find(b"\n", start)) >= 0:
            self._check(self._length + end - start)
            self._lines, self._length, start = self._lines + 1, 0, end + 1
        self._length += len(block) - start
        self._check(self._length)
        return block

    def _check(self, length: int) -> None:
        if length > self.limits.max_line_bytes:
            reason = f"the line is longer than {self.limits.max_line_bytes} bytes"
            raise ParseError(self.file, self._lines + 1, reason)


def ntriples_rows(stream: BinaryIO, file: str, limits: FileLimits) -> Iterator[Row]:
    """Rows in the order of the file, numbered by statement. Raises ParseError at the first bad one."""
    return _rows(LineGuard(stream, file, limits), file, pyoxigraph.RdfFormat.N_TRIPLES)


def turtle_rows(stream: BinaryIO, file: str, limits: FileLimits) -> Iterator[Row]:
    """Rows in the order of the file, numbered by statement. Raises ParseError at the first bad one."""
    return _rows(LineGuard(stream, file, limits), file, pyoxigraph.RdfFormat.TURTLE)


def _rows(stream: LineGuard, file: str, rdf_format: pyoxigraph.RdfFormat) -> Iterator[Row]:
    name = _namer()
    number = 0
    try:
        for number, quad in enumerate(pyoxigraph.parse(cast("BinaryIO", stream), format=rdf_format), 1):
            yield number, name(quad.subject), name(quad.predicate), name(quad.object)
    except SyntaxError as error:
        raise ParseError(file, error.lineno or 1, error.msg) from None
    except (TypeError, ValueError) as error:
        raise ParseError(file, number, f"statement {number}: {error}") from None


def _namer() -> Callable[[object], str]:
    anonymous: dict[str, str] = {}

    def name(term: object) -> str:
        if isinstance(term, pyoxigraph.NamedNode):
            iri = term.value
            return unquote(iri[len(OURS) :], errors="strict") if iri.startswith(OURS) else iri
        if isinstance(term, pyoxigraph.BlankNode):
            if _ANONYMOUS.fullmatch(term.value):
                return anonymous.setdefault(term.value, f"_:anonymous{len(anonymous)}")
            return str(term)
        if isinstance(term, pyoxigraph.Literal):
            return str(term)
        raise TypeError("statements about statements are not supported")

    return name


def write_ntriples(facts: Iterable[Fact]) -> Iterator[str]:
    """One statement a line; every N-Triples file is a Turtle file too."""
    return (f"{_subject(f.subject)} {_iri(f.predicate)} {_object(f.object)} .\n" for f in facts)


@lru_cache(CACHED_NAMES)
def _iri(name: str) -> str:
    if not name.startswith(OURS):
        with suppress(ValueError):  # not an IRI: it gets one of ours
            return str(pyoxigraph.NamedNode(name))
    return f"<{OURS}{quote(name, safe='')}>"


def _subject(name: str) -> str:
    return name if _BLANK.fullmatch(name) and not _ANONYMOUS.fullmatch(name[2:]) else _iri(name)


@lru_cache(CACHED_NAMES)
def _object(name: str) -> str:
    return name if name.startswith('"') and _is_literal(name) else _subject(name)


def _is_literal(name: str) -> bool:
    """Whether the name is a literal exactly as N-Triples writes it, so that it comes back unchanged."""
    try:
        statement = f"<a:a> <a:a> {name} .".encode()
        quads = list(pyoxigraph.parse(statement, format=pyoxigraph.RdfFormat.N_TRIPLES))
    except (SyntaxError, UnicodeEncodeError):
        return False
    return len(quads) == 1 and isinstance(quads[0].object, pyoxigraph.Literal) and str(quads[0].object) == name
