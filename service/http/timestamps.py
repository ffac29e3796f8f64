"""Converts times: seconds since 1970 in the database become ISO 8601 in UTC in answers."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator


def from_seconds(value: float) -> datetime:
    return datetime.fromtimestamp(value, UTC)


def _convert(value: Any) -> Any:
    return from_seconds(value) if isinstance(value, int | float) else value


Timestamp = Annotated[datetime, BeforeValidator(_convert)]
