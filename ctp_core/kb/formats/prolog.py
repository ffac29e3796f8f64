"""Prolog facts, `predicate(subject, object).`, with quoted atoms, numbers and comments."""

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from ctp_core.errors import ParseError
from ctp_core.kb.formats.rows import FileLimits, Row, read_lines
from ctp_core.symbols import Fact

_PLAIN = r"[a-z][A-Za-z0-9_]*"
# Possessive, so that a hostile line cannot make the search try every way of reading its escapes.
_TOKEN = re.compile(
    r"""\s+ | %.* | (?P<comment>/\*)
    | (?P<quoted>'(?>[^'\\]+|''|\\x[0-9a-fA-F]+\\|\\.)*+')
    | (?P<text>"(?>[^"\\]+|""|\\x[0-9a-fA-F]+\\|\\.)*+")
    | (?P<number>[+-]?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<word>\w+)
    | (?P<mark>[(),.])""",
    re.VERBOSE,
)
# The form of most lines in most files, read in one step.
_SIMPLE = re.compile(rf"({_PLAIN})\(\s*({_PLAIN})\s*,\s*({_PLAIN})\s*\)\s*\.\s*")
_BACKSLASHED = r"\\x([0-9a-fA-F]+)\\|\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\(.)"
# A doubled quote stands for one only between quotes of its own kind.
_ESCAPE = {quote: re.compile(f"{_BACKSLASHED}|{quote}{quote}", re.DOTALL) for quote in "'\""}
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}
_MARKS = ("(", ",", ")", ".")
SHAPE = "expected a fact such as parent(rick, beth)."
Token = tuple[int, str, str]  # line, kind, text


def prolog_rows(stream: BinaryIO, file: str, limits: FileLimits) -> Iterator[Row]:
    """Yields rows in the order of the file; a fact may span lines. Raises ParseError at the first bad one."""
    pending: list[Token] = []
    in_comment = False
    for number, line in read_lines(stream, file, limits):
        simple = None if pending or in_comment else _SIMPLE.fullmatch(line)
        if simple is not None:
            yield number, simple[2], simple[1], simple[3]
            continue
        tokens, in_comment = _tokens(line, file, number, in_comment)
        for token in tokens:
            pending.append(token)
            if len(pending) == 7:
                yield _fact(pending, file)
                pending = []
            elif not _fits(len(pending) - 1, token):
                raise ParseError(file, token[0], f"{SHAPE} Found {token[2][:40]!r}")
    if pending:
        raise ParseError(file, pending[-1][0], f"the file ends inside a fact; {SHAPE}")
    if in_comment:
        raise ParseError(file, 1, "a comment /* is not closed")


def _tokens(line: str, file: str, number: int, in_comment: bool) -> tuple[list[Token], bool]:
    tokens, position = [], 0
    while position < len(line):
        if in_comment:
            end = line.find("*/", position)
            if end < 0:
                break
            position, in_comment = end + 2, False
            continue
        match = _TOKEN.match(line, position)
        if match is None:
            raise ParseError(file, number, f"{SHAPE} Found {line[position : position + 40]!r}")
        position = match.end()
        in_comment = match.lastgroup == "comment"
        if match.lastgroup and not in_comment:
            tokens.append((number, match.lastgroup, match[0]))
    return tokens, in_comment


def _fits(place: int, token: Token) -> bool:
    """Whether the token may stand at this place of `predicate ( subject , object ) .`"""
    if place % 2 == 1 or place == 6:
        return token[2] == {1: "(", 3: ",", 5: ")", 6: "."}[place]
    return token[1] != "mark"


def _fact(tokens: list[Token], file: str) -> Row:
    if not _fits(6, tokens[6]):
        raise ParseError(file, tokens[6][0], f"{SHAPE} Found {tokens[6][2][:40]!r}")
    predicate, subject, object_ = (_name(tokens[place], file) for place in (0, 2, 4))
    return tokens[0][0], subject, predicate, object_


def _name(token: Token, file: str) -> str:
    line, kind, text = token
    if kind in ("quoted", "text"):
        try:
            return _ESCAPE[text[0]].sub(_unescaped, text[1:-1])
        except (ValueError, OverflowError):
            raise ParseError(file, line, f"{text[:40]} has an escape that is not a character") from None
    if kind == "word" and not text[0].islower():
        raise ParseError(file, line, f"{text[:40]!r} is a variable: put names like it in quotes, '{text[:40]}'")
    return text


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code:
        return chr(int(code, 16))
    if match[4]:
        if match[4] not in _CONTROL and match[4] not in "'\"\\`":
            raise ValueError(match[0])
        return _CONTROL.get(match[4], match[4])
    return match[0][0]


_MUST_ESCAPE = re.compile(r"['\\\x00-\x1f\x7f\x85\u2028\u2029]")
_SHORT = {"'": "\\'", "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def atom(name: str) -> str:
    """The name as Prolog writes it: quoted where it is not a plain atom."""
    if re.fullmatch(_PLAIN, name):
        return name
    return "'" + _MUST_ESCAPE.sub(lambda m: _SHORT.get(m[0]) or f"\\x{ord(m[0]):x}\\", name) + "'"


def write_prolog(facts: Iterable[Fact]) -> Iterator[str]:
    return (f"{atom(fact.predicate)}({atom(fact.subject)}, {atom(fact.object)}).\n" for fact in facts)
