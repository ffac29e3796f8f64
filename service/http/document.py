"""The OpenAPI document: that of the framework, completed with what it cannot know.

That is request bodies which routes read themselves, the security scheme, and the errors of each call.
"""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service.http.codes import Problem, described
from service.http.openapi import EXAMPLE_PROBLEM, REQUESTS
from service.keys.roles import required_role

SCHEMES = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of `ctp keys create`. On a loopback address none is needed until the first one is made.",
    }
}
ANYWHERE = (408, 429, 500, 503)
WITH_A_KEY = (401, 403)
WITH_A_BODY = (413, 415)
WITH_A_NAME = (404,)  # in the path, the query or the body
CHANGING = (409, 507)
REFERENCE = "#/components/schemas/{model}"


def operation_id(route: APIRoute) -> str:
    """The name of the route's function: `train`, not `train_train_post`."""
    return route.name


def complete(app: FastAPI) -> None:
    """Makes `app.openapi()` return the completed document."""
    from_framework = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(from_framework())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    components = document.setdefault("components", {})
    components["securitySchemes"] = SCHEMES
    components["schemas"] = dict(sorted({**_request_schemas(), **components.get("schemas", {})}.items()))
    for method, path, operation in _operations(document):
        public = required_role(method, path) is None
        operation["security"] = [] if public else [{"key": []}]
        for status in _statuses(method, path, operation, public):
            example = EXAMPLE_PROBLEM if status == 422 else None
            response = operation["responses"].setdefault(str(status), {})
            if "content" not in response:
                response.update(described(status, example))
    return document


def _request_schemas() -> dict[str, Any]:
    models: list[type[BaseModel]] = [*REQUESTS.values(), Problem]
    _, found = models_json_schema([(model, "validation") for model in models], ref_template=REFERENCE)
    schemas: dict[str, Any] = found["$defs"]
    return schemas


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _statuses(method: str, path: str, operation: dict[str, Any], public: bool) -> list[int]:
    """The errors that a call may have."""
    found = {*ANYWHERE, 422}
    changes, named = method != "GET", "{" in path or "requestBody" in operation or "parameters" in operation
    for statuses, wanted in (
        (WITH_A_KEY, not public),
        (WITH_A_BODY, "requestBody" in operation),
        (WITH_A_NAME, named),
        (CHANGING, changes or "{" in path),
    ):
        found |= set(statuses) if wanted else set()
    return sorted(found)
