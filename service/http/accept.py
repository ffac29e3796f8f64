"""Which of the formats that a call can answer in its caller would like best."""

from collections.abc import Sequence


def preferred(accept: str, offered: Sequence[str]) -> str:
    """The media type that the header `Accept` ranks first, the first on offer where it names none of them.

    Of equals the one that is named first: some clients ask for `application/json, text/plain, */*` by themselves.
    """
    ranked = [(wish, quality) for entry in accept.split(",") for wish, quality in _wishes(entry, offered)]
    return max(ranked, key=lambda one: one[1])[0] if ranked else offered[0]


def _wishes(entry: str, offered: Sequence[str]) -> list[tuple[str, float]]:
    """The first on offer that one entry of the header means, and how much it is wanted; nothing where it is not."""
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
