"""Roles of keys, and which role a call needs. A new role is a member of Role, a text, a line in `required_role`
and, where it is not one more step of the ladder, one in `Role.may`."""

import re
from enum import IntEnum


class Role(IntEnum):
    """Each role includes the ones before it, but only `metrics` and `admin` see the metrics."""

    metrics = 0
    read = 1
    write = 2
    admin = 3

    def may(self, needed: "Role") -> bool:
        """Tells whether a key of this role may make a call that needs another."""
        return self in (Role.metrics, Role.admin) if needed is Role.metrics else self >= needed


ROLE_TEXTS = {
    Role.read: "reads and queries",
    Role.write: "also changes its tenant's data",
    Role.admin: "also sees /metrics",
    Role.metrics: "sees /metrics and no tenant's data, for Prometheus",
}
LOOKS = {"GET", "HEAD", "OPTIONS"}
# Needed by probes and by browsers that have no key yet; they reveal nothing about any tenant.
PUBLIC = {"/", "/healthz", "/readyz", "/docs", "/openapi.json", "/favicon.ico"}
PUBLIC_PREFIXES = ("/static/",)
METRICS = {"/metrics"}
# A query is a POST but changes nothing.
QUESTIONS = {("POST", "/query"), ("POST", "/explain")}
WARMING = re.compile(r"/models/[^/]+/warm")  # neither does loading a model for queries to come


def required_role(method: str, path: str) -> Role | None:
    """Returns the lowest role for a call; None if no key is needed. Routes not listed here need a key."""
    if path in METRICS:
        return Role.metrics
    looks = method in LOOKS
    if looks and (path in PUBLIC or path.startswith(PUBLIC_PREFIXES)):
        return None
    asks = (method, path) in QUESTIONS or (method == "POST" and WARMING.fullmatch(path) is not None)
    return Role.read if looks or asks else Role.write
