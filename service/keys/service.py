"""Making and revoking keys, and telling from one who calls."""

import ipaddress
from dataclasses import dataclass
from functools import lru_cache

from service.db.engine import Database
from service.db.tables import ApiKey
from service.errors import Invalid, NotFound, Unauthorized
from service.http.remembered import Remembered
from service.keys import repository
from service.keys.roles import Role
from service.keys.tokens import Token
from service.names import check_name
from service.settings import Settings

DEFAULT_TENANT = "default"


@dataclass(frozen=True)
class Caller:
    """Whose things a call may touch, and how far it may go."""

    tenant: str
    role: Role


NO_KEYS = "it does not listen on {host} without keys: make one with `ctp keys create`, or use CTP_HOST=127.0.0.1"
OPEN = Caller(DEFAULT_TENANT, Role.admin)


@lru_cache(16)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def create(database: Database, tenant: str, role: str, label: str) -> Token:
    """A new key; its secret is not kept and cannot be shown again."""
    check_name(tenant)
    if role not in Role.__members__:
        raise Invalid("bad_role", f"role {role!r} is not known: use {', '.join(Role.__members__)}")
    token = Token.new()
    with database.write() as session:
        session.add(ApiKey(prefix=token.prefix, secret_sha256=token.digest, tenant=tenant, role=role, label=label))
    return token


def revoke(database: Database, prefix: str) -> None:
    """By its prefix, or by the whole key."""
    token = Token.parse(prefix)
    with database.write() as session:
        if not repository.revoke(session, token.prefix if token else prefix):
            raise NotFound("key_not_found", f"there is no key {prefix[:20]!r} in use: `ctp keys list` shows them")


def is_open(database: Database, settings: Settings) -> bool:
    """Whether calls need no key: on loopback until the first key was made. Revoking the last one opens nothing."""
    if settings.require_keys or not is_loopback(settings.host):
        return False
    with database.read() as session:
        return not repository.any_ever(session)


def may_listen(database: Database, settings: Settings) -> bool:
    """On loopback always; elsewhere only once there is a key."""
    if is_loopback(settings.host):
        return True
    with database.read() as session:
        return repository.any_usable(session)


class Keyring:
    """Who calls, remembered for at most two seconds, so that a query needs no database."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database, self.settings = database, settings
        self._open = True
        self._openness = Remembered[None, bool](lambda _: is_open(database, settings))
        self._callers = Remembered(self._look_up)

    async def caller(self, token: str) -> Caller:
        """Raises Unauthorized where the key is not one of ours or was revoked."""
        parsed = Token.parse(token)
        caller = await self._callers.get(parsed) if parsed else None
        if caller is None:
            raise Unauthorized("key_invalid", "the key is unknown or was revoked: ask for one of `ctp keys create`")
        return caller

    async def is_open(self) -> bool:
        """Once closed it stays closed, and nobody is asked any more."""
        if self._open:
            self._open = await self._openness.get(None)
        return self._open

    def _look_up(self, token: Token) -> Caller | None:
        with self.database.read() as session:
            row = repository.find(session, token.prefix)
        # A key that is not there is compared as well: the time it takes says nothing about prefixes.
        right = token.opens(row.secret_sha256 if row else "")
        return Caller(row.tenant, Role[row.role]) if row and right else None
