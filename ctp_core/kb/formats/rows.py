"""What all readers of facts share: rows with the line they came from, and limits on a file."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ctp_core.errors import ParseError
from ctp_core.symbols import MAX_NAME_LENGTH

Row = tuple[int, str, str, str]  # line, subject, predicate, object; the names are not checked yet
BLOCK_BYTES = 1 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class FileLimits:
    """Limits that let a file be read in bounded memory."""

    max_line_bytes: int = 64 * 1024
    max_name_length: int = MAX_NAME_LENGTH


def read_lines(
    stream: BinaryIO, file: str, limits: FileLimits, keep_returns: bool = False
) -> Iterator[tuple[int, str]]:
    """Yields (number, line without its end); raises ParseError at a line that is too long or not UTF-8.

    Reads block by block. `keep_returns` keeps a carriage return at the end of a line.
    """
    number, rest = 0, b""
    while block := stream.read(BLOCK_BYTES):
        if number == 0 and not rest:
            block = block.removeprefix(BYTE_ORDER_MARK)
        whole, newline, tail = block.rpartition(b"\n")
        if newline:
            for line in _decode(rest + whole, file, number, limits):
                number += 1
                yield number, line if keep_returns or not line.endswith("\r") else line[:-1]
            rest = tail
        else:
            rest += block
        _check_length(rest, file, number + 1, limits)
    if rest:
        last = _decode(rest, file, number, limits)[0]
        yield number + 1, last if keep_returns or not last.endswith("\r") else last[:-1]


def whole_lines(stream: BinaryIO, file: str, limits: FileLimits) -> Iterator[str]:
    """Lines with their ends: a story of CLUTRR may go over several."""
    return (f"{line}\n" for _, line in read_lines(stream, file, limits, keep_returns=True))


def _decode(block: bytes, file: str, before: int, limits: FileLimits) -> list[str]:
    try:
        lines = block.decode().split("\n")
    except UnicodeDecodeError as error:
        number = before + 1 + block.count(b"\n", 0, error.start)
        raise ParseError(file, number, "the line is not UTF-8 text") from None
    # A character has at most four bytes, so lines are measured in bytes only where one may be too long.
    if len(max(lines, key=len)) * 4 > limits.max_line_bytes:
        for offset, line in enumerate(lines):
            _check_length(line.encode(), file, before + 1 + offset, limits)
    return lines


def _check_length(line: bytes, file: str, number: int, limits: FileLimits) -> None:
    if len(line) > limits.max_line_bytes:
        raise ParseError(file, number, f"the line is longer than {limits.max_line_bytes} bytes")
