"""JSON bodies, checked strictly, and errors that say what is wrong without echoing the input."""

import json
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from ctp_core.config.places import walk
from ctp_core.errors import nearest
from service.errors import Invalid, UnsupportedMedia
from service.suggestions import did_you_mean

M = TypeVar("M", bound=BaseModel)
MAX_SHOWN_ERRORS = 5
NUL = b"\\u0000"


def parse_json(model: type[M], body: bytes) -> M:
    """Raises Invalid with the place and the reason of each fault."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error, model) from None


def holds_nul(body: bytes) -> bool:
    """Whether a text or a key in this JSON holds NUL, which PostgreSQL refuses wherever it meets it."""
    if NUL not in body:
        return False
    try:
        return _any_nul(json.loads(body))
    except (ValueError, RecursionError):
        return False  # not JSON: whoever parses it says so


def _any_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(_any_nul(part) for pair in value.items() for part in pair)
    return isinstance(value, list) and any(map(_any_nul, value))


def invalid(error: ValidationError, model: type[BaseModel], inside: str = "", tag: str | None = None) -> Invalid:
    """What is wrong in the terms of `model`, which stands at the place `inside` of the body.

    The input itself is left out: it may be huge, or not even encodable (NaN, half a surrogate pair). `tag` is what
    pydantic puts before the places of one of several models.
    """
    faults = []
    for fault in error.errors(include_input=False, include_context=False, include_url=False)[:MAX_SHOWN_ERRORS]:
        loc = fault["loc"][1:] if tag is not None and fault["loc"][:1] == (tag,) else fault["loc"]
        steps = [(inside, model), *walk(model, loc)]
        shown = ".".join(str(part) for part, _ in steps if part != "")
        faults.append({"place": shown or "body", "reason": _reason(fault, [found for _, found in steps])})
    detail = "; ".join(f"{fault['place']}: {fault['reason']}" for fault in faults)
    return Invalid("invalid_request", detail, errors=faults)


def _reason(fault: ErrorDetails, at: list[type[BaseModel] | None]) -> str:
    """pydantic's own words, where it has them for people who do not know pydantic; `at`: the models on the way."""
    if fault["type"] == "extra_forbidden":
        keys = list(at[-2].model_fields) if at[-2] else []
        choice = f": choose from {', '.join(keys)}" if keys else ""
        near = did_you_mean(nearest(str(fault["loc"][-1])[:80], keys))
        return f"there is no such key{near or choice}"
    if fault["type"] == "model_type":
        extra = at[-1].model_config.get("json_schema_extra") if at[-1] else None
        example = extra.get("example") if isinstance(extra, dict) else None
        return f"this should be an object{f', e.g. {json.dumps(example)}' if example else ''}"
    return fault["msg"]


async def read_json(request: Request, model: type[M]) -> M:
    """The body as `model`, in one pass over the bytes."""
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type != "application/json":
        raise UnsupportedMedia("bad_media_type", f"send application/json, not {content_type[:80]!r}")
    body = await request.body()
    if holds_nul(body):
        raise Invalid("invalid_request", "a text holds the character NUL, which no database stores")
    return parse_json(model, body)


def json_body(model: type[M]) -> Callable[[Request], Coroutine[Any, Any, M]]:
    """A dependency that reads the body as `model`."""

    async def read(request: Request) -> M:
        return await read_json(request, model)

    return read
