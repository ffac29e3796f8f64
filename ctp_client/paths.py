"""Names in URLs."""

from urllib.parse import quote


def segment(name: str) -> str:
    """A name as one segment of a path, whatever is in it; `@` stays readable."""
    return quote(name, safe="@")
