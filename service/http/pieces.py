"""Parses the facts of a large JSON body in pieces, so that no single step holds up the other calls of the process.

A thread alone would not help: the parser holds Python's global lock until it has parsed everything it was given.
"""

import re
import time
from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from service.errors import Invalid, PayloadTooLarge
from service.settings import NAME_LIMIT

M = TypeVar("M", bound=BaseModel)
Facts = list[tuple[str, str, str]]
FACTS = "facts"
PIECE_FACTS = 1000  # parsed in a millisecond or two
REST_BYTES = 1024 * 1024  # everything but the facts is parsed at once, in less than 0.1 s
_BEGIN = re.compile(rb'"facts"\s*:\s*\[')
# An array of a few strings. All quantifiers are bounded or possessive, so that a match takes little, and linear, time.
_FACT = rb'\s*+\[(?:[^\[\]{}"]{1,1000}+|"(?:[^"\\]|\\.){0,%d}+"){0,9}+\]' % (12 * NAME_LIMIT)  # \ud83d\ude00 is one
_PIECE = re.compile(rb"%b(?:\s*+,%b){0,%d}+" % (_FACT, _FACT, PIECE_FACTS - 1), re.DOTALL)
_COMMA, _END = re.compile(rb"\s*,"), re.compile(rb"\s*\]")


def parse_in_pieces(model: type[M], body: bytes, max_facts: int | None = None) -> M:
    """Parses the body as `model`, the list under its key `facts`, if it has one, in pieces.

    Raises ValidationError, Invalid, or PayloadTooLarge if there are more than `max_facts`, without reading the others.
    """
    begin = _BEGIN.search(body) if FACTS in model.model_fields else None
    facts: Facts = []
    end = start = begin.end() if begin else 0
    for piece in _pieces(body, start) if begin else ():
        facts += _parsed(model, piece[0], len(facts))
        end = piece.end()
        if max_facts is not None and len(facts) > max_facts:
            raise too_many_facts(max_facts)
        time.sleep(0)  # hands the lock over to whoever waits for it
    if begin and not _END.match(body, end):
        raise _invalid(
            f"{FACTS}.{len(facts)}", "this should be an array [subject, predicate, object], or the end of the list"
        )
    if len(body) - (end - start) > REST_BYTES:
        detail = f"the body without its `facts` is larger than {REST_BYTES} bytes: send fewer goals or settings at once"
        raise PayloadTooLarge("body_too_large", detail)
    rest = model.model_validate_json(body[:start] + body[end:])
    return rest.model_copy(update={FACTS: facts}) if facts else rest


def too_many_facts(limit: int) -> PayloadTooLarge:
    """Says which limit the facts of a query pass."""
    return PayloadTooLarge("too_many_facts", f"a query may have at most {limit} facts (CTP_MAX_QUERY_FACTS)")


def _pieces(body: bytes, start: int) -> Iterator[re.Match[bytes]]:
    piece = _PIECE.match(body, start)
    while piece is not None:
        yield piece
        comma = _COMMA.match(body, piece.end())
        piece = _PIECE.match(body, comma.end()) if comma else None


def _parsed(model: type[BaseModel], piece: bytes, num_before: int) -> Facts:
    """Parses some facts; an error counts the facts of the pieces before."""
    try:
        return _adapter(model).validate_json(b"[%b]" % piece)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_context=False, include_url=False)[0]
        number, *inner = fault["loc"] or (0,)
        place = ".".join(map(str, (FACTS, num_before + int(number), *inner)))
        raise _invalid(place, fault["msg"]) from None


@cache
def _adapter(model: type[BaseModel]) -> "TypeAdapter[Facts]":
    field: Any = model.model_fields[FACTS].rebuild_annotation()
    return TypeAdapter(field)


def _invalid(place: str, reason: str) -> Invalid:
    return Invalid("invalid_request", f"{place}: {reason}", errors=[{"place": place, "reason": reason}])
