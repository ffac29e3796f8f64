"""Facts as JSON Lines: `["rick", "parent", "beth"]` or `{"subject": …, "predicate": …, "object": …}` on each line."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from ctp_core.errors import ParseError
from ctp_core.kb.formats.rows import FileLimits, Row, read_lines
from ctp_core.symbols import Fact

KEYS = ("subject", "predicate", "object")
SHAPE = 'expected ["subject", "predicate", "object"] or an object with these three keys'


def jsonl_rows(stream: BinaryIO, file: str, limits: FileLimits) -> Iterator[Row]:
    """Yields rows in the order of the file, without blank lines. Raises ParseError at the first bad line."""
    for number, line in read_lines(stream, file, limits):
        if not line or line.isspace():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise ParseError(file, number, "the line is not JSON") from None
        subject, predicate, object_ = _names(value, file, number)
        yield number, subject, predicate, object_


def _names(value: Any, file: str, number: int) -> list[str]:
    if isinstance(value, dict) and value.keys() == set(KEYS):
        value = [value[key] for key in KEYS]
    if not isinstance(value, list) or len(value) != len(KEYS) or not all(isinstance(name, str) for name in value):
        raise ParseError(file, number, SHAPE)
    return value


def write_jsonl(facts: Iterable[Fact]) -> Iterator[str]:
    return (json.dumps(fact._asdict(), ensure_ascii=False) + "\n" for fact in facts)
