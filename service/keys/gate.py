"""The gate in front of the app: checks the key of a request before its body is read."""

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import Forbidden, ServiceError, Unauthorized
from service.http.problems import PART_ERRORS, part_is_away, respond
from service.keys.roles import required_role
from service.keys.service import OPEN, Caller, Keyring, is_loopback

BEARER = "bearer "
HOST = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


class Gate:
    """Middleware that denies by default and puts `ctp.tenant` into the scope of requests that it admits."""

    def __init__(self, app: ASGIApp, keyring: Keyring) -> None:
        self.app, self.keyring = app, keyring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"no {scope['type']} routes exist")
        try:
            await self._admit(scope)
        except ServiceError as error:
            await respond(error.problem(), {**error.headers, "Connection": "close"})(scope, receive, send)
        except PART_ERRORS as error:
            await part_is_away(error)(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _admit(self, scope: Scope) -> None:
        role = required_role(scope["method"], scope["path"])
        if role is None:
            return
        caller = await self._caller(scope)
        if not caller.role.may(role):
            raise Forbidden(
                "role_too_low", f"this call needs a key of role {role.name}; yours has role {caller.role.name}"
            )
        scope["ctp.tenant"] = caller.tenant

    async def _caller(self, scope: Scope) -> Caller:
        headers = Headers(scope=scope)
        authorization = headers.get("authorization")
        if authorization is not None:
            if not authorization.lower().startswith(BEARER):
                raise Unauthorized("key_invalid", "send the key as `Authorization: Bearer ctp_…`")
            return await self.keyring.caller(authorization[len(BEARER) :].strip())
        if not await self.keyring.is_open():
            raise Unauthorized(
                "key_missing", "send a key as `Authorization: Bearer ctp_…`: `ctp keys create` makes one"
            )
        _check_local(scope, headers)
        return OPEN


def _check_local(scope: Scope, headers: Headers) -> None:
    """Refuses calls from other machines, and from web pages of other sites that a browser here has open."""
    server = scope.get("server")
    if server is not None and not is_loopback(server[0]):
        raise Unauthorized("key_missing", "without a key this service can be used on loopback only: send one")
    host = headers.get("host", "")
    named = HOST.fullmatch(host)
    if named is None or not is_loopback(named[1]):
        raise Forbidden("foreign_host", "until a key is made, the service answers only to localhost, not to this Host")
    origin = headers.get("origin")
    # Browsers send no Origin with a GET that only loads something, such as an image, but say where it comes from.
    elsewhere = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
    if elsewhere or (origin is not None and origin.partition("://")[2] != host):
        raise Forbidden("foreign_origin", "until a key is made, the service does not answer pages of other sites")
