"""Roles of keys: `read` reads and queries, `write` also changes its tenant's data, `admin` also sees `/metrics`."""

from enum import IntEnum


class Role(IntEnum):
    """Each role includes the ones before it."""

    read = 1
    write = 2
    admin = 3


LOOKS = {"GET", "HEAD", "OPTIONS"}
# Needed by probes and by browsers that have no key yet; they reveal nothing about any tenant.
PUBLIC = {"/", "/healthz", "/readyz", "/docs", "/openapi.json", "/favicon.ico"}
PUBLIC_PREFIXES = ("/static/",)
ADMIN = {"/metrics"}
# A query is a POST but changes nothing.
QUESTIONS = {("POST", "/query")}


def required_role(method: str, path: str) -> Role | None:
    """Returns the lowest role for a call; None if no key is needed. Routes not listed here need a key."""
    if path in ADMIN:
        return Role.admin
    looks = method in LOOKS
    if looks and (path in PUBLIC or path.startswith(PUBLIC_PREFIXES)):
        return None
    return Role.read if looks or (method, path) in QUESTIONS else Role.write
