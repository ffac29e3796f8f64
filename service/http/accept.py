"""Chooses the format of an answer by the request's `Accept` header."""

from collections.abc import Sequence


def preferred(accept: str, offered: Sequence[str]) -> str:
    """Returns the offered media type that the header ranks highest, or the first one offered if it names none.

    A tie goes to the type named first: some clients send `application/json, text/plain, */*` by default.
    """
    ranked = [(wish, quality) for entry in accept.split(",") for wish, quality in _wishes(entry, offered)]
    return max(ranked, key=lambda one: one[1])[0] if ranked else offered[0]


def _wishes(entry: str, offered: Sequence[str]) -> list[tuple[str, float]]:
    """Returns the first offered type that one entry of the header matches, with its quality; empty if none matches."""
    name, *parameters = (part.strip().lower() for part in entry.split(";"))
    fitting = [kind for kind in offered if name in (kind, f"{kind.partition('/')[0]}/*", "*/*")]
    quality = _quality(parameters)
    return [(fitting[0], quality)] if fitting and quality > 0 else []


def _quality(parameters: Sequence[str]) -> float:
    given = next((part.removeprefix("q=") for part in parameters if part.startswith("q=")), "1")
    try:
        return float(given)
    except ValueError:
        return 0.0
