"""Reads gzip in bounded memory: a small file must not unzip to a huge one."""

import gzip
import io
import zlib
from dataclasses import dataclass
from typing import BinaryIO

from ctp_core.errors import ParseError, TooLarge

MAGIC = b"\x1f\x8b"
# The ratio is not checked up to this size: short files may compress very well, and do no harm.
FREE_BYTES = 1 << 20


@dataclass(frozen=True)
class ZipLimits:
    """Limits on the unzipped size of a file: in bytes, and as a multiple of its zipped size."""

    max_bytes: int = 512 << 20
    max_ratio: float = 200.0


class Gunzipped(io.RawIOBase):
    """The content of a gzip stream; raises TooLarge past a limit and ParseError where the stream is damaged."""

    def __init__(self, stream: BinaryIO, file: str, limits: ZipLimits) -> None:
        self._raw, self._file, self._limits = stream, file, limits
        self._stream = gzip.GzipFile(fileobj=stream, mode="rb")
        self._bytes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            block = self._stream.read(size if size >= 0 else self._limits.max_bytes + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise ParseError(self._file, 1, f"the gzip stream is damaged: {error}") from None
        self._bytes += len(block)
        if self._bytes > self._limits.max_bytes:
            raise TooLarge(f"{self._file} is larger than {self._limits.max_bytes} bytes when it is unzipped")
        if self._bytes > FREE_BYTES and self._bytes > self._limits.max_ratio * max(1, self._raw.tell()):
            raise TooLarge(f"{self._file} unzips to more than {self._limits.max_ratio:g} times its size")
        return block


def maybe_gunzipped(stream: BinaryIO, file: str, limits: ZipLimits) -> BinaryIO:
    """Returns the stream from its start, unzipped where it is gzip."""
    stream.seek(0)
    zipped = stream.read(len(MAGIC)) == MAGIC
    stream.seek(0)
    return Gunzipped(stream, file, limits) if zipped else stream  # type: ignore[return-value]
