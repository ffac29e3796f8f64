"""Problems as the OpenAPI document describes them: every status with its codes."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

CODES: dict[int, tuple[str, ...]] = {
    400: ("bad_request",),
    401: ("key_invalid", "key_missing"),
    403: ("foreign_host", "foreign_origin", "role_too_low"),
    404: (
        "alias_not_found",
        "entity_not_found",
        "evaluation_not_found",
        "job_not_found",
        "kb_not_found",
        "model_not_found",
        "no_such_route",
        "prediction_not_found",
        "rule_not_found",
        "seed_not_found",
        "split_not_found",
    ),
    405: ("method_not_allowed",),
    408: ("body_too_slow",),
    409: (
        "bad_artifact",
        "busy",
        "evaluation_active",
        "job_finished",
        "kb_damaged",
        "kb_exists",
        "kb_in_use",
        "kb_is_sample",
        "kb_loading",
        "kb_not_here",
        "load_given_up",
        "model_has_alias",
        "model_not_ready",
        "model_pending",
        "prediction_active",
        "prediction_expired",
        "prediction_not_ready",
        "version_needed",
    ),
    413: (
        "body_too_large",
        "model_too_large",
        "too_large",
        "too_many_facts",
        "too_many_goals",
        "too_many_results",
        "too_much_stored",
    ),
    415: ("bad_media_type",),
    422: (
        "bad_alias",
        "bad_archive",
        "bad_comparison",
        "bad_config",
        "bad_cursor",
        "bad_data",
        "bad_event_id",
        "bad_format",
        "bad_kind",
        "bad_line",
        "bad_name",
        "bad_query",
        "bad_question",
        "bound_to_its_kb",
        "empty_kb",
        "idempotency_key_reused",
        "invalid_request",
        "missing_file",
        "missing_goal",
        "no_such_split",
        "not_of_where",
        "other_kind",
        "proof_too_deep",
        "repeated_field",
        "split_exists",
        "too_little_memory",
        "too_many_questions",
        "too_many_unknowns",
        "two_seeds",
        "unknown_field",
        "unknown_preset",
        "unknown_symbol",
        "unstorable_value",
    ),
    429: (
        "too_many_bytes",
        "too_many_calls",
        "too_many_comparisons",
        "too_many_downloads",
        "too_many_groundings",
        "too_many_imports",
        "too_many_queries",
        "too_many_queued_jobs",
        "too_many_requests",
        "too_many_unread_bytes",
        "too_many_uploads",
        "too_many_waiting_calls",
    ),
    500: ("internal_error", "query_failed"),
    503: (
        "caller_gone",
        "database_damaged",
        "database_gone",
        "database_newer",
        "database_not_migrated",
        "database_read_only",
        "facts_out_of_memory",
        "import_lost",
        "no_query_worker",
        "no_redis",
        "out_of_memory",
        "out_of_time",
        "part_is_away",
        "query_lost",
        "query_too_long",
        "query_waited_too_long",
        "query_worker_busy",
        "query_worker_lost",
        "queue_down",
        "stopping",
        "storage_away",
        "storage_failed",
        "storage_refused",
    ),
    507: ("storage_full",),
}
RETRIED = (429, 503)  # with a Retry-After


class Problem(BaseModel):
    """An error as RFC 9457 has it. Programs read `code`, which is stable; `detail` names the value and the remedy."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list["Fault"] | None = Field(None, description="What is wrong in which place of the request.")
    suggestions: list[str] | None = Field(None, description="The nearest names, where one is not known.")


class Fault(BaseModel):
    """A place of a request, such as `query.limit`, and what is wrong there."""

    place: str
    reason: str


def described(status: int, example: Any = None) -> dict[str, Any]:
    """The response of a status in the document."""
    told = ", ".join(f"`{code}`" for code in CODES[status])
    body: dict[str, Any] = {"schema": {"$ref": "#/components/schemas/Problem"}}
    if example is not None:
        body["example"] = example
    response: dict[str, Any] = {"description": f"Codes: {told}", "content": {"application/problem+json": body}}
    if status in RETRIED:
        seconds = {"description": "Seconds to wait before the same call is made again.", "schema": {"type": "integer"}}
        response["headers"] = {"Retry-After": seconds}
    return response
