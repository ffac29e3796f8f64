"""Makes creating calls safe to repeat: two calls with the same `Idempotency-Key` create one thing.

The answer is stored in the transaction that creates the thing, so that a kill at any moment leaves both or neither.
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
class CreationReply:
    """The answer of a creating call."""

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

    def create(self, database: Database, content: bytes, create: Callable[[Session], CreationReply]) -> CreationReply:
        """Runs `create` in a transaction, or returns the stored answer of an earlier call with this key.

        `content` is the body of the call: a different body under the same key raises Invalid. An IntegrityError means
        a race with a similar call, so the call is tried again. If `create` raises, the key stays free.
        """
        for _ in range(RACE_RETRIES):
            try:
                with database.write() as session:
                    return self._create(session, sha256(content).hexdigest(), create)
            except IntegrityError:
                continue
        raise Conflict("busy", "too many calls are creating the same thing at once: try again")

    def kept(self, database: Database, content: bytes) -> CreationReply | None:
        """Returns the stored answer of an earlier call with this key, so that costly work can be skipped."""
        if self.key is None:
            return None
        mine = {"tenant": self.tenant, "route": self.route, "key": self.key}
        fresh = IdempotencyKey.created_at >= now() - KEPT_SECONDS
        with database.read() as session:
            kept = session.scalar(select(IdempotencyKey).filter_by(**mine).where(fresh))
        return None if kept is None else self._replay(kept, sha256(content).hexdigest())

    def _create(self, session: Session, digest: str, create: Callable[[Session], CreationReply]) -> CreationReply:
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
        # Inserted before anything is created: of two simultaneous calls, the second waits here on PostgreSQL.
        session.flush()
        reply = create(session)
        row.status, row.headers, row.body = reply.status, reply.headers, reply.body
        return reply

    def _replay(self, kept: IdempotencyKey, digest: str) -> CreationReply:
        if kept.body_sha256 != digest:
            raise Invalid(
                "idempotency_key_reused",
                f"Idempotency-Key {self.key!r} was used with a different body: use a new key for a new request",
            )
        return CreationReply(kept.status, kept.body, kept.headers, replayed=True)


def forget_old_keys(session: Session) -> None:
    session.execute(delete(IdempotencyKey).where(IdempotencyKey.created_at < now() - KEPT_SECONDS))
