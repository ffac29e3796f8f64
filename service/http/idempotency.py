"""Creating calls that are safe to repeat: the same `Idempotency-Key` twice creates one thing.

The answer is kept in the transaction that creates, so that a kill at any moment leaves both or neither.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service.db.clock import now
from service.db.engine import Database
from service.db.tables import IdempotencyKey
from service.errors import Conflict, Invalid

KEPT_SECONDS = 24 * 3600
RACE_RETRIES = 5


@dataclass(frozen=True)
class Reply:
    """What a creating call answers."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str]
    replayed: bool = False


@dataclass(frozen=True)
class Once:
    """One creating call: its tenant, its route and the key that the caller gave it, if any."""

    tenant: str
    route: str
    key: str | None

    def create(self, database: Database, content: bytes, create: Callable[[Session], Reply]) -> Reply:
        """Runs `create` in a transaction, or answers as the call with this key did before.

        `content` says what is asked for: other content under the same key raises Invalid. An IntegrityError is a
        race with a call of the same kind, and the call is tried again; an error of `create` uses up no key.
        """
        for _ in range(RACE_RETRIES):
            try:
                with database.write() as session:
                    return self._create(session, sha256(content).hexdigest(), create)
            except IntegrityError:
                continue
        raise Conflict("busy", "too many calls create the same thing at once: try again")

    def kept(self, database: Database, content: bytes) -> Reply | None:
        """What a call with this key answered before, for those who would otherwise do much in vain."""
        if self.key is None:
            return None
        mine = {"tenant": self.tenant, "route": self.route, "key": self.key}
        fresh = IdempotencyKey.created_at >= now() - KEPT_SECONDS
        with database.read() as session:
            kept = session.scalar(select(IdempotencyKey).filter_by(**mine).where(fresh))
        return None if kept is None else self._replay(kept, sha256(content).hexdigest())

    def _create(self, session: Session, digest: str, create: Callable[[Session], Reply]) -> Reply:
        if self.key is None:
            return create(session)
        expired = IdempotencyKey.created_at < now() - KEPT_SECONDS
        mine = (IdempotencyKey.tenant == self.tenant, IdempotencyKey.route == self.route)
        session.execute(delete(IdempotencyKey).where(*mine, IdempotencyKey.key == self.key, expired))
        kept = session.get(IdempotencyKey, (self.tenant, self.route, self.key))
        if kept is not None:
            return self._replay(kept, digest)
        row = IdempotencyKey(
            tenant=self.tenant, route=self.route, key=self.key, body_sha256=digest, status=0, headers={}, body={}
        )
        session.add(row)
        # Taken before anything is created: of two calls at once, PostgreSQL lets the second wait here.
        session.flush()
        reply = create(session)
        row.status, row.headers, row.body = reply.status, reply.headers, reply.body
        return reply

    def _replay(self, kept: IdempotencyKey, digest: str) -> Reply:
        if kept.body_sha256 != digest:
            raise Invalid(
                "idempotency_key_reused",
                f"Idempotency-Key {self.key!r} was used for another body: use a new key for a new request",
            )
        return Reply(kept.status, kept.body, kept.headers, replayed=True)


def forget_old_keys(session: Session) -> None:
    session.execute(delete(IdempotencyKey).where(IdempotencyKey.created_at < now() - KEPT_SECONDS))
