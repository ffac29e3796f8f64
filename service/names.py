"""Checks the names that users give to KBs and models, and makes ids."""

import re
import secrets

from service.errors import Invalid

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
RESERVED = {"compare", "import"}
ID_BYTES = 8


def check_name(name: str) -> str:
    """Returns the name; raises Invalid if it cannot be part of a URL or is the name of a route."""
    if not NAME.fullmatch(name) or name in RESERVED:
        raise Invalid(
            "bad_name",
            f"{name[:80]!r} is not a valid name: use 1 to 64 letters, digits, '.', '_' or '-', beginning with a letter "
            f"or digit, and not one of {', '.join(sorted(RESERVED))}",
        )
    return name


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(ID_BYTES)}"
