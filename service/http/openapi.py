"""Examples and request bodies for the OpenAPI schema."""

from typing import Any

from pydantic import BaseModel

Responses = dict[int | str, dict[str, Any]]
_REASON = "Input should be less than or equal to 1000"
EXAMPLE_PROBLEM = {
    "type": "urn:ctp:problem:invalid_request",
    "title": "Invalid request",
    "status": 422,
    "code": "invalid_request",
    "detail": f"query.limit: {_REASON}",
    "errors": [{"place": "query.limit", "reason": _REASON}],
}
# Replaces FastAPI's description of its own validation errors, which this service never sends.
PROBLEMS: Responses = {422: {"description": "RFC 9457 problem"}}
REQUESTS: dict[str, type[BaseModel]] = {}  # what routes read themselves: name -> model


def example(status: int, value: Any) -> Responses:
    return {status: {"content": {"application/json": {"example": value}}}}


TEXT: dict[str, Any] = {"schema": {"type": "string"}}  # the content of an answer that is text


def binary(*media_types: str) -> dict[str, Any]:
    """The content of an answer that is a file."""
    return {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in media_types}


def json_request(model: type[BaseModel]) -> dict[str, Any]:
    """Describes the JSON body of a route that reads the request itself."""
    REQUESTS[model.__name__] = model
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def upload_body(model: type[BaseModel]) -> dict[str, Any]:
    """Describes the body of an upload: JSON, or a form with files."""
    text = {"type": "string"}
    file = {"type": "string", "format": "binary"}
    form = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": text,
            "kind": text,
            "format": text,
            "holdout": text,
            "file": file,
            "train": file,
            "valid": file,
            "test": file,
        },
    }
    body = json_request(model)
    body["requestBody"]["content"]["multipart/form-data"] = {"schema": form}
    return body
