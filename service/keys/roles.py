"""What a key may do: `read` looks and asks, `write` changes its own tenant's things, `admin` sees the whole service."""

from enum import IntEnum


class Role(IntEnum):
    """Each role may do what those before it may."""

    read = 1
    write = 2
    admin = 3


LOOKS = {"GET", "HEAD", "OPTIONS"}
# What a probe, and a browser that has no key yet, must reach: none of it tells anything about a tenant.
PUBLIC = {"/", "/healthz", "/readyz", "/docs", "/openapi.json", "/favicon.ico"}
PUBLIC_PREFIXES = ("/static/",)
ADMIN = {"/metrics"}
# Asking changes nothing, although it is a POST.
QUESTIONS = {("POST", "/query")}


def required_role(method: str, path: str) -> Role | None:
    """The least role for a call, None where no key is needed. A route that nobody thought of here needs a key."""
    if path in ADMIN:
        return Role.admin
    looks = method in LOOKS
    if looks and (path in PUBLIC or path.startswith(PUBLIC_PREFIXES)):
        return None
    return Role.read if looks or (method, path) in QUESTIONS else Role.write
