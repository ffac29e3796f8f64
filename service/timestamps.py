"""Times on the wire: ISO 8601 in UTC; in the database they are seconds since 1970."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator


def _from_seconds(value: Any) -> Any:
    return datetime.fromtimestamp(value, UTC) if isinstance(value, int | float) else value


Timestamp = Annotated[datetime, BeforeValidator(_from_seconds)]
