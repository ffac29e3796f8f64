"""Errors for unknown names that suggest the nearest known ones."""

from collections.abc import Iterable

from ctp_core.errors import nearest
from service.errors import Invalid, NotFound


def did_you_mean(names: list[str]) -> str:
    """Returns ` (did you mean 'a' or 'b'?)`, or an empty string without names."""
    if not names:
        return ""
    *most, last = map(repr, names)
    return f" (did you mean {', '.join(most)} or {last}?)" if most else f" (did you mean {last}?)"


def not_found(code: str, what: str, name: str, known: Iterable[str], remedy: str) -> NotFound:
    """Says that there is no `what` called `name`; the nearest `known` names go into the text and into `suggestions`."""
    near = nearest(name, known)
    return NotFound(code, f"there is no {what} {name[:140]!r}{did_you_mean(near)}: {remedy}", suggestions=near)


def unknown_symbol(role: str, name: str, place: str, known: Iterable[str]) -> Invalid:
    near = nearest(name, known)
    return Invalid(
        "unknown_symbol", f"there is no {role} {name[:140]!r} in {place}{did_you_mean(near)}", suggestions=near
    )
