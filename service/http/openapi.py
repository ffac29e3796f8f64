"""Examples and bodies for the OpenAPI page."""

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
# In the place of what FastAPI would say of its own errors, which never leave this service.
PROBLEMS: Responses = {
    422: {"description": "RFC 9457 problem", "content": {"application/problem+json": {"example": EXAMPLE_PROBLEM}}}
}


def example(status: int, value: Any) -> Responses:
    return {status: {"content": {"application/json": {"example": value}}}}


def json_request(model: type[BaseModel]) -> dict[str, Any]:
    """The entry of a body that the route reads by itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _schema(model)}}}}


def upload_body(model: type[BaseModel]) -> dict[str, Any]:
    """JSON, or a form with files."""
    text = {"type": "string"}
    file = {"type": "string", "format": "binary"}
    form = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": text,
            "kind": text,
            "format": text,
            "file": file,
            "train": file,
            "valid": file,
            "test": file,
        },
    }
    body = json_request(model)
    body["requestBody"]["content"]["multipart/form-data"] = {"schema": form}
    return body


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Self-contained: definitions are put where they are used, since they are not among the app's components."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def inline(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return inline(definitions[node["$ref"].rsplit("/", 1)[1]])
            return {key: inline(value) for key, value in node.items()}
        return [inline(value) for value in node] if isinstance(node, list) else node

    inlined: dict[str, Any] = inline(schema)
    return inlined
