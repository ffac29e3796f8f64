"""The database's clock, so that machines whose own clocks differ agree on leases.

That clock may be set back or forward. A time that lies further ahead than anything can have set it was written before
the clock was set back, and says nothing any more.
"""

from typing import Any

from sqlalchemy import ColumnElement, Double, or_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql.functions import FunctionElement

Time = InstrumentedAttribute[float] | InstrumentedAttribute[float | None]
# A clock that is set back by less than a period is not told from one that is right: it only makes the period longer.
PERIODS = 2


class now(FunctionElement[float]):  # noqa: N801  reads like func.now() in a statement
    """Seconds since 1970, with fractions, at the moment of the call."""

    type = Double()
    inherit_cache = True


@compiles(now, "sqlite")
def _sqlite(*_: Any, **__: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _postgresql(*_: Any, **__: Any) -> str:
    return "extract(epoch from clock_timestamp())::double precision"


def over(end: Time, seconds: float) -> ColumnElement[bool]:
    """Whether a period of `seconds` with this end is over, or was begun before the clock was set back."""
    return or_(end < now(), end > now() + PERIODS * seconds)


def recent(moment: Time, seconds: float) -> ColumnElement[bool]:
    """Whether it was in the last `seconds`; a moment that seems far ahead was before the clock was set back."""
    return moment.between(now() - seconds, now() + PERIODS * seconds)
