"""JSON bodies, checked strictly, and errors that say what is wrong without echoing the input."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from service.errors import Invalid, UnsupportedMedia

M = TypeVar("M", bound=BaseModel)
MAX_SHOWN_ERRORS = 5


def parse_json(model: type[M], body: bytes) -> M:
    """Raises Invalid with the place and the reason of each fault."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error) from None


def invalid(error: ValidationError) -> Invalid:
    """The input itself is left out: it may be huge, or not even encodable (NaN, half a surrogate pair)."""
    faults = [
        {"place": ".".join(map(str, fault["loc"])) or "body", "reason": fault["msg"]}
        for fault in error.errors(include_input=False, include_context=False, include_url=False)[:MAX_SHOWN_ERRORS]
    ]
    detail = "; ".join(f"{fault['place']}: {fault['reason']}" for fault in faults)
    return Invalid("invalid_request", detail, errors=faults)


def json_body(model: type[M]) -> Callable[[Request], Coroutine[Any, Any, M]]:
    """A dependency that reads the body as `model`, in one pass over the bytes."""

    async def read(request: Request) -> M:
        content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if content_type != "application/json":
            raise UnsupportedMedia("bad_media_type", f"send application/json, not {content_type[:80]!r}")
        return parse_json(model, await request.body())

    return read
