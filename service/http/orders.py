"""Creating calls of routes that can also wait for what they have created, and so are not plain functions."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi.concurrency import run_in_threadpool
from sqlalchemy.orm import Session

from service.db.engine import Database
from service.http.idempotency import CreationReply, Once
from service.http.shared_threads import SharedThreads


@dataclass(frozen=True)
class Order:
    """One creating call, which takes its turn among the writing calls of its tenant.

    Without turns, the many orders of one tenant took all threads and kept those of others waiting.
    """

    once: Once
    database: Database
    threads: SharedThreads

    @property
    def tenant(self) -> str:
        return self.once.tenant

    async def create(
        self, content: bytes, create: Callable[[Session], CreationReply], check: Callable[[], None] | None = None
    ) -> CreationReply:
        """Does as `Once.create`, after `check`; raises TooMany if too many calls of the tenant wait already."""
        async with self.threads.turn(self.tenant, "POST"):
            return await run_in_threadpool(self._create, content, create, check)

    def _create(
        self, content: bytes, create: Callable[[Session], CreationReply], check: Callable[[], None] | None
    ) -> CreationReply:
        # A call that is repeated has its answer, whatever has become since of what it named.
        kept = self.once.kept(self.database, content)
        if kept is not None:
            return kept
        if check:
            check()
        return self.once.create(self.database, content, create)
