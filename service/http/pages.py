"""Lists in pieces: `{"items": […], "next_cursor": …}`."""

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

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Most items in the answer.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the answer before.")]


class Page(BaseModel, Generic[T]):
    """A piece of a list; `next_cursor` is null in the last one."""

    items: list[T]
    next_cursor: str | None = None


def encode_cursor(position: list[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode()


def decode_cursor(cursor: str | None, *types: type) -> list[Any] | None:
    """The position that the cursor stands for; raises Invalid on one that we did not make."""
    if cursor is None:
        return None
    try:
        position = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        if not isinstance(position, list) or [type(value) for value in position] != list(types):
            raise ValueError
        if any(not _storable(value) for value in position):
            raise ValueError
    except (ValueError, RecursionError):
        raise Invalid("bad_cursor", "the cursor is not one of ours: start again without it") from None
    return position


def _storable(value: int | float | str) -> bool:
    """Whether the database can compare with it: a cursor can be made up."""
    if isinstance(value, str):
        return "\0" not in value and value.encode(errors="ignore").decode() == value
    return abs(value) < MAX_NUMBER if isinstance(value, int) else math.isfinite(value)


def page(rows: Sequence[Row], limit: int, convert: Callable[[Row], T], position: Callable[[Row], list[Any]]) -> Page[T]:
    """A page from up to limit + 1 rows: the extra row only tells that there is more."""
    more = len(rows) > limit
    shown = rows[:limit]
    return Page(items=[convert(r) for r in shown], next_cursor=encode_cursor(position(shown[-1])) if more else None)
