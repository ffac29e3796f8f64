"""Bounds the bytes of answers that callers have not read yet, as plain ASGI middleware in front of the app."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import TooMany
from service.http.problems import respond
from service.settings import Settings

# The server takes a whole answer into its memory at once, but waits before it takes the next piece.
PIECE_BYTES = 64 * 1024


class UnreadBytes:
    """The bytes of large answers in the memory of this process, until they are sent.

    An answer counts in full until its end: its bytes are freed at once. One alone is always sent, however large it is.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.by_tenant: Counter[str] = Counter()

    @contextmanager
    def holding(self, tenant: str, num_bytes: int) -> Iterator[None]:
        """Counts an answer while the block runs; raises TooMany if too many bytes are unread with it."""
        self._check(self.by_tenant[tenant], num_bytes, self.settings.max_tenant_unread_bytes, "TENANT_", "your")
        self._check(self.by_tenant.total(), num_bytes, self.settings.max_unread_bytes, "", "all")
        self.by_tenant[tenant] += num_bytes
        try:
            yield
        finally:
            self.by_tenant[tenant] -= num_bytes
            if not self.by_tenant[tenant]:
                del self.by_tenant[tenant]

    @staticmethod
    def _check(held: int, num_bytes: int, limit: int, setting: str, whose: str) -> None:
        if held and held + num_bytes > limit:
            detail = (
                f"{whose} answers that are not read yet would have more than {limit} bytes "
                f"(CTP_MAX_{setting}UNREAD_BYTES): read them, or ask for less at once"
            )
            raise TooMany("too_many_unread_bytes", detail)


class UnreadLimit:
    """Sends a large answer in pieces, as fast as it is read, and refuses it if a tenant does not read its answers.

    It is sent when its call is over, which then has let go of its body. Streams go through: they have places.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.unread = app, UnreadBytes(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant = scope.get("ctp.tenant")
        if tenant is None:
            await self.app(scope, receive, send)
            return
        start: Message | None = None
        body: bytes | None = None

        async def holding_back(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None and not message.get("more_body") and len(message["body"]) > PIECE_BYTES:
                body = message["body"]
                return
            if start is not None:
                await send(start)
                start = None
            await send(message)

        await self.app(scope, receive, holding_back)
        if start is not None and body is not None:
            await self._send_in_pieces(tenant, start, body, scope, receive, send)

    async def _send_in_pieces(
        self, tenant: str, start: Message, body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            with self.unread.holding(tenant, len(body)):
                await send(start)
                for first in range(0, len(body), PIECE_BYTES):
                    last = first + PIECE_BYTES
                    piece = body[first:last]
                    await send({"type": "http.response.body", "body": piece, "more_body": last < len(body)})
        except TooMany as refusal:
            await respond(refusal.problem(), refusal.headers)(scope, receive, send)
