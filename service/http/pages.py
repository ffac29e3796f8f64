"""Paginated lists: `{"items": […], "next_cursor": …}`."""

import base64
import json
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel

from service.errors import Invalid

T = TypeVar("T")
Row = TypeVar("Row")
DEFAULT_LIMIT = 50
MAX_LIMIT = 1000
MAX_NUMBER = 2**31

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Maximum number of items in the answer, at most 1000.")]
Cursor = Annotated[
    str | None, Query(max_length=500, description="`next_cursor` of the previous page; omit it for the first.")
]


class Page(BaseModel, Generic[T]):
    """One page of a list; `next_cursor` is null on the last page."""

    items: list[T]
    next_cursor: str | None = None


def encode_cursor(position: list[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode()


def decode_cursor(cursor: str | None, *types: type) -> list[Any] | None:
    """Returns the position that the cursor encodes; raises Invalid if this service did not make it."""
    if cursor is None:
        return None
    try:
        position = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        if not isinstance(position, list) or [type(value) for value in position] != list(types):
            raise ValueError
        if any(not _storable(value) for value in position):
            raise ValueError
    except (ValueError, RecursionError):
        raise Invalid("bad_cursor", "the cursor is not valid: start again without one") from None
    return position


def _storable(value: int | float | str) -> bool:
    """Tells whether the database can compare with the value: a caller may send an invented cursor."""
    if isinstance(value, str):
        return "\0" not in value and value.encode(errors="ignore").decode() == value
    return abs(value) < MAX_NUMBER if isinstance(value, int) else math.isfinite(value)


def page(rows: Sequence[Row], limit: int, convert: Callable[[Row], T], position: Callable[[Row], list[Any]]) -> Page[T]:
    """Makes a page from up to limit + 1 rows: the extra row only shows that there are more."""
    more = len(rows) > limit
    shown = rows[:limit]
    return Page(items=[convert(r) for r in shown], next_cursor=encode_cursor(position(shown[-1])) if more else None)
