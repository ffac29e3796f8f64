"""The format that a caller gets, by its header `Accept`."""

import pytest

from service.http.accept import preferred

JSON, PROLOG, CSV = OFFERED = ("application/json", "text/plain", "text/csv")


@pytest.mark.parametrize(
    ("accept", "format_"),
    [
        ("", JSON),
        ("text/plain", PROLOG),
        ("Text/CSV; charset=utf-8", CSV),
        ("application/json, text/plain, */*", JSON),
        ("text/html,application/xml;q=0.9,*/*;q=0.8", JSON),
        ("text/plain;q=0.1, application/json", JSON),
        ("text/html, text/csv;q=0.5", CSV),
        ("text/*", PROLOG),
        ("text/plain;q=0", JSON),
        ("text/plain;q=nan, text/csv;q=x", JSON),
        ("text/plainly", JSON),
        (",;,", JSON),
    ],
)
def test_the_format_that_is_wanted_most_is_given(accept: str, format_: str) -> None:
    assert preferred(accept, OFFERED) == format_
