"""All errors that `ctp_core` raises on purpose.

CtpError
├── DataError            a file, a fact or a graph that cannot be used
│   ├── ParseError       ... because of a known line of a file
│   ├── EmptyKB          ... because it has no facts
│   └── TooLarge         ... because it exceeds a limit
├── ConfigError          settings that contradict each other or the data
├── UnknownSymbol        a name that the model has never seen
├── BadQuestion          a question that cannot be asked
└── ArtifactError        a model file that is missing, damaged or of another format
"""

import difflib
import heapq
from collections.abc import Iterable
from os.path import commonprefix

NUM_SUGGESTIONS = 3
# Comparing two names of this length takes up to half a millisecond, in which no other thread runs: 0.15 s for all.
MAX_COMPARED, COMPARED_CHARACTERS = 300, 64
BEGINNINGS = (1, 4, 8, 16, 32)  # numbers of characters compared after the prefix that all names share


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Finds the known names most similar to `name`, best first. Of many names, compares only those that begin alike."""
    folded = {_compared(other): other for other in reversed(_alike(name, list(known)))}
    found = difflib.get_close_matches(_compared(name), list(folded), n=NUM_SUGGESTIONS, cutoff=0.5)
    return [folded[other] for other in found]


def _compared(name: str) -> str:
    """The part of a name that is compared: its end, because long names such as URIs differ there."""
    return name[-COMPARED_CHARACTERS:].casefold()


def _alike(name: str, names: list[str]) -> list[str]:
    """Picks at most MAX_COMPARED names: those that share the longest beginning, then those nearest in length."""
    ends = [min(names), max(names)] if len(names) > MAX_COMPARED else []
    shared = len(commonprefix(ends))  # noqa: RUF071  characters are meant, not folders
    for more in BEGINNINGS:
        if len(names) <= MAX_COMPARED:
            return names
        beginning, rest = name[:shared], name[shared : shared + more]
        either_case = tuple({beginning + rest, beginning + rest.lower(), beginning + rest.capitalize()})
        names = [other for other in names if other.startswith(either_case)] or names
    return heapq.nsmallest(MAX_COMPARED, names, key=lambda other: abs(len(other) - len(name)))


class CtpError(Exception):
    """Base of all errors of this package; `str(error)` can be shown to the user."""

    code = "ctp_error"


class DataError(CtpError):
    code = "bad_data"


class ParseError(DataError):
    """A line that cannot be read: names the file, the line (from 1) and the reason."""

    code = "bad_line"

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(f"{file}, line {line}: {reason}")
        self.file, self.line, self.reason = file, line, reason


class EmptyKB(DataError):
    code = "empty_kb"


class TooLarge(DataError):
    """More than a limit allows; the text names the limit."""

    code = "too_large"


class ConfigError(CtpError):
    code = "bad_config"


class UnknownSymbol(CtpError):
    """A name outside the vocabulary, with the nearest names that are in it."""

    code = "unknown_symbol"

    def __init__(self, role: str, name: str, known: Iterable[str], where: str = "to this model") -> None:
        self.role, self.name = role, name
        self.suggestions = nearest(name, known)
        listed = ", ".join(repr(s) for s in self.suggestions)
        hint = f"the nearest known names are {listed}" if listed else "no known name is near it"
        super().__init__(f"{role} {name!r} is unknown {where}; {hint}")


class BadQuestion(CtpError):
    code = "bad_question"


class ArtifactError(CtpError):
    code = "bad_artifact"


class DamagedKB(ArtifactError):
    """Files of a KB that are gone, damaged, or not to be read by this version."""

    code = "kb_damaged"
