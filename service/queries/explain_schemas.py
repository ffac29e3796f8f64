"""Requests and answers of POST /explain."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from service.queries.logical_schemas import Name

MAX_EXPLAINED_PROOFS = 100
MAX_NEAR_MISSES = 100
PLACES = ("subject", "predicate", "object")


class FactIn(BaseModel):
    """A fact with all three places."""

    model_config = ConfigDict(extra="forbid")

    subject: Name
    predicate: Name
    object: Name


def _places(value: Any) -> Any:
    """A list of three names as an object."""
    three = isinstance(value, list) and len(value) == len(PLACES)
    return dict(zip(PLACES, value, strict=True)) if three else value


class ExplainRequest(BaseModel):
    """Asks why a fact has its score, why it has no better one, and what would change it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"model": "family", "fact": ["rick", "grandparent", "morty"], "threshold": 0.5, "proofs": 3}
        },
    )

    model: str = Field(min_length=1, max_length=140, description="Model, as `id`, `name`, `name@3` or `name@champion`.")
    kb: str | None = Field(
        None, min_length=1, max_length=64, description="KB to apply the model to; default: the KB it was trained on."
    )
    fact: Annotated[FactIn, BeforeValidator(_places)] = Field(
        description="The fact, as [subject, predicate, object] or as an object with these keys."
    )
    threshold: float = Field(
        0.5, ge=0, le=1, description="The facts of `what_would_change_it` are those without which the score is below."
    )
    proofs: int = Field(10, ge=0, le=MAX_EXPLAINED_PROOFS, description="Maximum number of proofs in `why`.")
    near_misses: int = Field(10, ge=0, le=MAX_NEAR_MISSES, description="Maximum number of rules in `why_not`.")
    facts: list[tuple[Name, Name, Name]] = Field(default_factory=list, description="Extra facts for this call only.")
    without: list[tuple[Name, Name, Name]] = Field(default_factory=list, description="Facts to leave out, likewise.")


EXAMPLE_EXPLANATION: dict[str, Any] = {
    "model_id": "model_7be844215d1f0c9a",
    "elapsed_ms": 12.5,
    "explainable": True,
    "scoring": "evidence",
    "semiring": None,
    "truncated": False,
    "warnings": [],
    "threshold": 0.5,
    "why": {
        "subject": "rick",
        "predicate": "grandparent",
        "object": "morty",
        "score": 0.93,
        "probability": 0.93,
        "rank": 1,
        "known": True,
        "score_parts": {"bias": -3.1, "shown": 5.7, "rest": 0.0, "num_proofs": 1},
        "proofs": [],
    },
    "why_not": [
        {
            "rule": {"id": "f3a6…", "text": "grandparent(X,Y) :- grandparent(X,Z), sibling(Z,Y)", "confidence": 0.6},
            "stated": [{"subject": "summer", "predicate": "sibling", "object": "morty"}],
            "missing": {"subject": "rick", "predicate": "grandparent", "object": "summer"},
            "score_then": 0.95,
        }
    ],
    "what_would_change_it": {
        "facts": [{"subject": "beth", "predicate": "parent", "object": "morty"}],
        "score_then": 0.04,
        "smallest": True,
        "reason": None,
    },
}
