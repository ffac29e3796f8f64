"""Parses the long list of a large JSON body in pieces, so that no single step holds up the other calls of the process.

A thread alone would not help: the parser holds Python's global lock until it has parsed everything it was given.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from service.errors import Invalid, PayloadTooLarge, ServiceError
from service.settings import NAME_LIMIT

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
REST_BYTES = 1024 * 1024  # everything but the list is parsed at once, in less than 0.1 s
_COMMA, _END = re.compile(rb"\s*,"), re.compile(rb"\s*\]")


# All quantifiers are bounded or possessive, so that a match takes little, and linear, time.
def flat(most_characters: int) -> bytes:
    """A pattern of what stands between brackets: strings, and anything else.

    `most_characters` of a string are read before an escape, so that an endless one does not match."""
    characters = 12 * most_characters  # \ud83d\ude00 is one
    return rb'[^\[\]{}"]{1,1000}+|"[^"\\]{0,%d}+(?:\\.[^"\\]{0,%d}+){0,%d}+"' % ((characters,) * 3)


@dataclass(frozen=True)
class LongList:
    """The list of a body that may be long: its key, a pattern of its items, and what is said of wrong ones."""

    key: str
    item: bytes
    per_piece: int  # that are parsed in a millisecond or two
    shape: str
    too_many: Callable[[int], ServiceError]
    first: bytes = b""  # a pattern of what follows, where other lists may have the same key

    @cached_property
    def begin(self) -> re.Pattern[bytes]:
        return re.compile(rb'"%b"\s*:\s*\[%b' % (self.key.encode(), self.first))

    @cached_property
    def _piece(self) -> re.Pattern[bytes]:
        pattern = rb"%b(?:\s*+,%b){0,%d}+" % (self.item, self.item, self.per_piece - 1)
        return re.compile(pattern, re.DOTALL)

    def pieces(self, body: bytes, start: int, most: int | None) -> Iterator[slice]:
        """Where the items are, some at a time; raises `too_many` instead of going on far beyond `most` items."""
        piece, num_before = self._piece.match(body, start), 0
        while piece is not None:
            if most is not None and num_before > most:
                raise self.too_many(most)
            yield slice(*piece.span())
            num_before += self.per_piece  # only the last piece has fewer
            comma = _COMMA.match(body, piece.end())
            piece = self._piece.match(body, comma.end()) if comma else None


def too_many_facts(limit: int) -> PayloadTooLarge:
    """Says which limit the facts of a query pass."""
    return PayloadTooLarge("too_many_facts", f"a query may have at most {limit} facts (CTP_MAX_QUERY_FACTS)")


FACTS = LongList(
    "facts",
    rb"\s*+\[(?:%b){0,9}+\]" % flat(NAME_LIMIT),  # an array of a few strings
    100,
    "an array [subject, predicate, object]",
    too_many_facts,
)


def parse_in_pieces(model: type[M], body: bytes, most: int | None = None, long: LongList = FACTS) -> M:
    """Parses the body as `model`, its long list, if it has one, in pieces.

    Raises ValidationError, Invalid, or what the list says of more than `most` items, without reading the others.
    """
    rest, pieces = rest_and_pieces(model, body, most, long)
    items = [item for piece in pieces for item in piece]
    return rest.model_copy(update={long.key: items}) if items else rest


def rest_and_pieces(model: type[M], body: bytes, most: int | None, long: LongList) -> tuple[M, Iterator[Sequence[Any]]]:
    """Returns the body as `model` with an empty list, and the items of the list, some at a time, parsed when taken.

    Raises as `parse_in_pieces` does, partly while items are taken.
    """
    begin = long.begin.search(body) if long.key in model.model_fields else None
    start = begin.end() if begin else 0
    places = list(_handing_over(long.pieces(body, start, most))) if begin else []
    end = places[-1].stop if places else start
    pieces = _items(model, body, most, long, places)
    if begin and not _END.match(body, end):
        num_items = sum(map(len, pieces))
        raise _invalid(f"{long.key}.{num_items}", f"this should be {long.shape}, or the end of the list")
    if len(body) - (end - start) > REST_BYTES:
        detail = f"the body without its `{long.key}` is larger than {REST_BYTES} bytes: send less of the rest at once"
        raise PayloadTooLarge("body_too_large", detail)
    return model.model_validate_json(body[:start] + body[end:]), pieces


def _items(
    model: type[BaseModel], body: bytes, most: int | None, long: LongList, places: Sequence[slice]
) -> Iterator[Sequence[Any]]:
    num_items = 0
    for place in _handing_over(places):
        items = _parsed(model, long.key, body[place], num_items)
        num_items += len(items)
        if most is not None and num_items > most:
            raise long.too_many(most)
        yield items


def _handing_over(pieces: Iterable[T]) -> Iterator[T]:
    """Hands the global lock over to whoever waits for it after each piece."""
    for piece in pieces:
        yield piece
        time.sleep(0)


def _parsed(model: type[BaseModel], key: str, piece: bytes, num_before: int) -> list[Any]:
    """Parses some items; an error counts the items of the pieces before."""
    try:
        return _adapter(model, key).validate_json(b"[%b]" % piece)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_context=False, include_url=False)[0]
        number, *inner = fault["loc"] or (0,)
        place = ".".join(map(str, (key, num_before + int(number), *inner)))
        raise _invalid(place, fault["msg"]) from None


@cache
def _adapter(model: type[BaseModel], key: str) -> "TypeAdapter[list[Any]]":
    field: Any = model.model_fields[key].rebuild_annotation()
    return TypeAdapter(field)


def _invalid(place: str, reason: str) -> Invalid:
    return Invalid("invalid_request", f"{place}: {reason}", errors=[{"place": place, "reason": reason}])
