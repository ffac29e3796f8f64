"""Tab-separated facts, one a line: subject, predicate, object."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from ctp_core.datasets.names import MAX_NAME_LENGTH, check_name
from ctp_core.errors import DataError, ParseError
from ctp_core.symbols import Fact

COLUMNS = 3
BYTE_ORDER_MARK = "\ufeff"


def read_tsv(stream: BinaryIO, file: str, max_name_length: int = MAX_NAME_LENGTH) -> Iterator[Fact]:
    """Facts in the order of the file; blank lines are passed over. Raises ParseError at the first bad line."""
    for number, raw in enumerate(stream, 1):
        try:
            line = raw.decode().rstrip("\r\n")
            line = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
            if line.strip():
                yield _fact(line, max_name_length)
        except UnicodeDecodeError:
            raise ParseError(file, number, "the line is not UTF-8 text") from None
        except DataError as error:
            raise ParseError(file, number, str(error)) from None


def _fact(line: str, max_name_length: int) -> Fact:
    columns = line.split("\t")
    if len(columns) != COLUMNS:
        raise DataError(
            f"expected {COLUMNS} columns separated by tabs (subject, predicate, object), found {len(columns)}"
        )
    return Fact(*(check_name(column.strip(" "), max_name_length) for column in columns))


def write_tsv(facts: Iterable[Fact]) -> Iterator[str]:
    return ("\t".join(fact) + "\n" for fact in facts)
