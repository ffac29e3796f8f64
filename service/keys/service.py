"""Makes and revokes keys, and identifies callers by them."""

import ipaddress
from dataclasses import dataclass
from functools import lru_cache

from service.db.engine import Database
from service.db.tables import ApiKey
from service.errors import Invalid, NotFound, Unauthorized
from service.http.cache import Cache
from service.keys import repository
from service.keys.roles import Role
from service.keys.tokens import Token
from service.names import check_name
from service.settings import Settings

DEFAULT_TENANT = "default"


@dataclass(frozen=True)
class Caller:
    """The tenant and the role that a call acts with."""

    tenant: str
    role: Role


NO_KEYS = "the API does not listen on {host} without keys: make one with `ctp keys create`, or use CTP_HOST=127.0.0.1"
OPEN = Caller(DEFAULT_TENANT, Role.admin)


@lru_cache(16)
def is_loopback(host: str) -> bool:
    """Tells whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def create(database: Database, tenant: str, role: str, label: str) -> Token:
    """Makes a key; its secret is not stored and cannot be shown again."""
    check_name(tenant)
    if role not in Role.__members__:
        raise Invalid("bad_role", f"role {role!r} is not known: use {', '.join(Role.__members__)}")
    token = Token.new()
    with database.write() as session:
        session.add(ApiKey(prefix=token.prefix, secret_sha256=token.digest, tenant=tenant, role=role, label=label))
    return token


def revoke(database: Database, prefix: str) -> None:
    """Revokes a key, given its prefix or the whole key; raises NotFound."""
    token = Token.parse(prefix)
    with database.write() as session:
        if not repository.revoke(session, token.prefix if token else prefix):
            raise NotFound("key_not_found", f"there is no active key {prefix[:20]!r}: `ctp keys list` shows all keys")


def is_open(database: Database, settings: Settings) -> bool:
    """Tells whether calls need no key: only on loopback, and only until the first key is made (revoked or not)."""
    if settings.require_keys or not is_loopback(settings.host):
        return False
    with database.read() as session:
        return not repository.any_ever(session)


def may_listen(database: Database, settings: Settings) -> bool:
    """Tells whether the API may listen on its host: always on loopback, elsewhere only if there is a key."""
    if is_loopback(settings.host):
        return True
    with database.read() as session:
        return repository.any_usable(session)


class Keyring:
    """Identifies callers; remembers each for two seconds, so that most queries do not need the database."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database, self.settings = database, settings
        self._open = True
        self._openness = Cache[None, bool](lambda _: is_open(database, settings))
        self._callers = Cache(self._look_up)

    async def caller(self, token: str) -> Caller:
        """Returns the caller of a key; raises Unauthorized if the key is unknown or revoked."""
        parsed = Token.parse(token)
        caller = await self._callers.get(parsed) if parsed else None
        if caller is None:
            raise Unauthorized("key_invalid", "the key is unknown or revoked: make a new one with `ctp keys create`")
        return caller

    async def is_open(self) -> bool:
        """Tells whether calls need no key; once they do, they always will, so the database is not asked again."""
        if self._open:
            self._open = await self._openness.get(None)
        return self._open

    def _look_up(self, token: Token) -> Caller | None:
        with self.database.read() as session:
            row = repository.find(session, token.prefix)
        # Compares even without a row, so that the time taken does not reveal which prefixes exist.
        right = token.opens(row.secret_sha256 if row else "")
        return Caller(row.tenant, Role[row.role]) if row and right else None
