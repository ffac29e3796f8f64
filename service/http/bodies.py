"""Reads and checks JSON bodies; errors say what is wrong without echoing the input."""

import json
import re
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from ctp_core.base.config import parts_with_models
from ctp_core.errors import nearest
from service.errors import Invalid, UnsupportedMedia
from service.http.pieces import parse_in_pieces
from service.http.suggestions import did_you_mean
from service.http.turns import Turns

M = TypeVar("M", bound=BaseModel)
MAX_SHOWN_ERRORS, MAX_SHOWN_CHARACTERS = 5, 80
# pydantic lists all faults or none; listing millions takes minutes and gigabytes, and blocks every other request.
MAX_LISTED_ERRORS = 1000
LARGE_BYTES = 64 * 1024  # a smaller body is parsed at once: that takes less time than to hand it to a thread
# Threads of their own: large bodies must not keep others from looking up their keys. All share one lock anyway.
_parsers = Turns(2, "parse")
NUL = b"\\u0000"
# Two backslashes stand for one in the text, so after an even number of them `\u0000` starts an escape.
ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


async def parse_json(
    model: type[M], body: bytes, max_facts: int | None = None, nul: bool = True, tenant: str = ""
) -> M:
    """Parses the body as `model`, a large one beside the other calls; raises Invalid with each fault and its place.

    Large bodies of several tenants are parsed in turn.
    Raises PayloadTooLarge if a large body has more than `max_facts` facts. Without `nul`, a string with NUL is refused.
    """
    if len(body) <= LARGE_BYTES:
        return _parsed(model, body, max_facts, nul)
    return await _parsers.run(tenant, partial(_parsed, model, body, max_facts, nul))


def _parsed(model: type[M], body: bytes, max_facts: int | None, nul: bool) -> M:
    if not nul and holds_nul(body):
        raise Invalid("invalid_request", "a string contains the character NUL, which cannot be stored: remove it")
    try:
        if len(body) <= LARGE_BYTES:
            return model.model_validate_json(body)
        return parse_in_pieces(model, body, max_facts)
    except ValidationError as error:
        raise invalid(error, model) from None


def holds_nul(body: bytes) -> bool:
    """Tells whether a string or a key in this JSON contains NUL, which PostgreSQL refuses everywhere."""
    return NUL in body and ESCAPED_NUL.search(body) is not None


def first_faults(error: ValidationError) -> list[ErrorDetails]:
    """Lists the first faults without the input, which may be huge or not encodable (NaN, half a surrogate pair)."""
    if error.error_count() > MAX_LISTED_ERRORS:
        many: ErrorDetails = {
            "type": "too_many",
            "loc": (),
            "msg": f"more than {MAX_LISTED_ERRORS} faults",
            "input": None,
        }
        return [many]
    return error.errors(include_input=False, include_context=False, include_url=False)[:MAX_SHOWN_ERRORS]


def invalid(error: ValidationError, model: type[BaseModel], inside: str = "") -> Invalid:
    """What is wrong in the terms of `model`, which stands at the place `inside` of the body."""
    faults = []
    for fault in first_faults(error):
        steps = [(inside, model), *parts_with_models(model, fault["loc"])]
        shown = ".".join(str(part)[:MAX_SHOWN_CHARACTERS] for part, _ in steps if part != "")
        faults.append({"place": shown or "body", "reason": _reason(fault, [found for _, found in steps])})
    detail = "; ".join(f"{fault['place']}: {fault['reason']}" for fault in faults)
    return Invalid("invalid_request", detail, errors=faults)


def _reason(fault: ErrorDetails, at: list[type[BaseModel] | None]) -> str:
    """Says what is wrong to people who do not know pydantic; `at` lists the models on the way to the fault."""
    if fault["type"] == "extra_forbidden":
        keys = list(at[-2].model_fields) if at[-2] else []
        choice = f": choose from {', '.join(keys)}" if keys else ""
        near = did_you_mean(nearest(str(fault["loc"][-1])[:MAX_SHOWN_CHARACTERS], keys))
        return f"there is no such key{near or choice}"
    if fault["type"] == "model_type":
        extra = at[-1].model_config.get("json_schema_extra") if at[-1] else None
        example = extra.get("example") if isinstance(extra, dict) else None
        return f"this should be an object{f', e.g. {json.dumps(example)}' if example else ''}"
    return fault["msg"]


async def read_json(request: Request, model: type[M], max_facts: int | None = None) -> M:
    """Reads the body as `model`; raises Invalid, PayloadTooLarge or UnsupportedMedia."""
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type != "application/json":
        raise UnsupportedMedia("bad_media_type", f"send application/json, not {content_type[:MAX_SHOWN_CHARACTERS]!r}")
    tenant = request.scope.get("ctp.tenant", "")
    return await parse_json(model, await request.body(), max_facts, nul=False, tenant=tenant)


def json_body(model: type[M]) -> Callable[[Request], Coroutine[Any, Any, M]]:
    """Returns a FastAPI dependency that reads the body as `model`."""

    async def read(request: Request) -> M:
        return await read_json(request, model)

    return read
