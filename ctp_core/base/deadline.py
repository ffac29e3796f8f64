"""The end of the time that a question may take, as provers look at it."""

from collections.abc import Callable

Expired = Callable[[], bool]


class OutOfTime(Exception):
    """The time is over before there is anything to return; whoever asked still has what was found before."""


def never() -> bool:
    """The deadline that never passes."""
    return False


def look(expired: Expired) -> None:
    """Raises OutOfTime once the deadline has passed."""
    if expired():
        raise OutOfTime
