"""Limits that must hold before any of the body is read: plain ASGI, in front of the app."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import PayloadTooLarge
from service.problems import respond


class BodyLimit:
    """Refuses bodies over `max_bytes`, by their declared length or, when chunked, as they arrive."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app, self.max_bytes = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self.max_bytes:
            await self._refuse(scope, receive, send)
            return
        await self._counted(scope, receive, send)

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        received, started = 0, False

        async def counting() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_bytes:
                raise PayloadTooLarge("body_too_large", self._detail)
            return message

        async def noting(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, counting, noting)
        except PayloadTooLarge:
            if started:
                raise
            await self._refuse(scope, receive, send)

    @property
    def _detail(self) -> str:
        return f"the body is larger than the limit of {self.max_bytes} bytes (CTP_MAX_BODY_BYTES)"

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = PayloadTooLarge("body_too_large", self._detail)
        await respond(error.problem(), {"Connection": "close"})(scope, receive, send)
