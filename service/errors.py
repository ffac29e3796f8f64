"""Every error that a caller can see, as RFC 9457 problem+json.

ServiceError
├── Unauthorized         401
├── Forbidden            403
├── NotFound             404
├── TooSlow              408
├── Conflict             409
├── PayloadTooLarge      413
├── UnsupportedMedia     415
├── Invalid              422
├── TooMany              429
└── Unavailable          503, with Retry-After
Errors of `ctp_core` and of the storage know nothing of HTTP: CORE_STATUS and `storage_problem` map them.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from ctp_core import errors as core
from ctp_core.logic.syntax import BadQuery
from service.files.storage import StorageError, StorageFull

RETRY_AFTER_SECONDS = 2


class ServiceError(Exception):
    """An error that a caller sees: `code` is stable, for programs; `detail` tells people the value and the remedy."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"

    def __init__(self, code: str, detail: str, **extra: Any) -> None:
        super().__init__(detail)
        self.code, self.detail, self.extra = code, detail, extra

    @property
    def headers(self) -> dict[str, str]:
        return {}

    def problem(self) -> dict[str, Any]:
        return problem(self.status, self.title, self.code, self.detail, self.extra)


class Unauthorized(ServiceError):
    status, title = 401, "Who are you?"

    @property
    def headers(self) -> dict[str, str]:
        return {"WWW-Authenticate": "Bearer"}


class Forbidden(ServiceError):
    status, title = 403, "Not allowed"


class NotFound(ServiceError):
    status, title = 404, "Not found"


class TooSlow(ServiceError):
    status, title = 408, "Too slow"


class Conflict(ServiceError):
    status, title = 409, "Conflict"


class PayloadTooLarge(ServiceError):
    status, title = 413, "Too large"


class UnsupportedMedia(ServiceError):
    status, title = 415, "Unsupported media type"


class Invalid(ServiceError):
    status, title = 422, "Invalid request"


class Retriable(ServiceError):
    """The same call may succeed later."""

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(RETRY_AFTER_SECONDS)}


class TooMany(Retriable):
    status, title = 429, "Too many"


class Unavailable(Retriable):
    status, title = 503, "Unavailable"


CORE_STATUS: dict[type[core.CtpError], tuple[int, str]] = {
    core.TooLarge: (413, "Too large"),
    core.DataError: (422, "Invalid data"),
    core.ConfigError: (422, "Invalid settings"),
    core.UnknownSymbol: (422, "Unknown name"),
    core.BadQuestion: (422, "Invalid question"),
    core.DamagedKB: (409, "Damaged KB"),
    core.ArtifactError: (409, "Damaged model"),
}


def problem(status: int, title: str, code: str, detail: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    body = {"type": f"urn:ctp:problem:{code}", "title": title, "status": status, "code": code, "detail": detail}
    return body | dict(extra)


def core_problem(error: core.CtpError) -> dict[str, Any]:
    """Returns the problem for an error of `ctp_core`, with the error's details as extra keys."""
    status, title = next((CORE_STATUS[c] for c in type(error).__mro__ if c in CORE_STATUS), (500, "Internal error"))
    extra: dict[str, Any] = {}
    if isinstance(error, core.UnknownSymbol):
        extra = {"suggestions": error.suggestions}
    if isinstance(error, BadQuery):
        extra = {"place": error.place, "character": error.character}
    if isinstance(error, core.ParseError):
        extra = {"file": error.file, "line": error.line, "reason": error.reason}
    return problem(status, title, error.code, str(error), extra)


def storage_problem(error: StorageError) -> dict[str, Any]:
    """Returns the problem for files that could not be written or read although nothing is wrong with them."""
    status, title = (507, "No room") if isinstance(error, StorageFull) else (503, "Unavailable")
    return problem(status, title, error.code, str(error), {})
