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
PROBLEMS: Responses = {
    422: {"description": "RFC 9457 problem", "content": {"application/problem+json": {"example": EXAMPLE_PROBLEM}}}
}


def example(status: int, value: Any) -> Responses:
    return {status: {"content": {"application/json": {"example": value}}}}


def json_request(model: type[BaseModel]) -> dict[str, Any]:
    """Describes the JSON body of a route that reads the request itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _schema(model)}}}}


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


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Returns the schema with its definitions inlined, since they are not among the app's components."""
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
