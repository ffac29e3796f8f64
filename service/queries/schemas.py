"""Requests and answers about queries."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, FailFast, Field

from service.queries.logical_schemas import LogicalFields
from service.settings import GOALS_LIMIT, NAME_LIMIT

MAX_TOP_K = 1000
MAX_PROOFS = 100
MAX_DEPTH = 1000

Name = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT)]


class GoalIn(BaseModel):
    """A fact to check, or to complete: at most one place may be null, and that place is asked for."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"subject": "rick", "predicate": "grandparent", "object": None}},
    )

    subject: Name | None = None
    predicate: Name | None = Field(
        None, description="If null, a model of graphs answers only with labels of its training graphs."
    )
    object: Name | None = None


class QueryRequest(LogicalFields):
    """One question to a model (`goal`), several at once (`goals`), or one with several atoms (`where`)."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "model": "family",
                "goal": {"subject": "rick", "predicate": "grandparent", "object": None},
                "top_k": 3,
                "proofs": 1,
            }
        },
    )

    model: str = Field(min_length=1, max_length=140, description="Model, as `id`, `name`, `name@3` or `name@champion`.")
    kb: str | None = Field(
        None, min_length=1, max_length=64, description="KB to apply the model to; default: the KB it was trained on."
    )
    goal: GoalIn | None = None
    goals: list[GoalIn] | None = Field(None, min_length=1, max_length=GOALS_LIMIT)
    facts: Annotated[list[tuple[Name, Name, Name]], FailFast()] = Field(
        default_factory=list,
        description="Extra facts for this query only, each as [subject, predicate, object]. A fact with a predicate "
        "that the model does not know is ignored, with a warning in the answer; if none is left, the query is refused.",
    )
    top_k: int = Field(10, ge=1, le=MAX_TOP_K, description="Maximum number of answers to each goal.")
    proofs: int = Field(3, ge=0, le=MAX_PROOFS, description="Maximum number of proofs of each answer.")
    depth: int | None = Field(
        None,
        ge=0,
        le=MAX_DEPTH,
        description="Maximum depth of the search, in rule applications, for method `ctp` only; null: as trained.",
    )
    exclude_known: bool = Field(False, description="Leave out answers that are facts of the KB.")


_UNIFIED = {"left": "parent", "right": "parent", "score": 1.0, "approximate": False}
_LEAF = {"by": "fact", "score": 1.0, "unifications": [_UNIFIED], "rule": None, "bindings": None, "children": []}
EXAMPLE_ANSWER: dict[str, Any] = {
    "model_id": "model_7be844215d1f0c9a",
    "elapsed_ms": 2.1,
    "explainable": True,
    "scoring": "best_proof",
    "semiring": "max-product",
    "truncated": False,
    "warnings": [],
    "answers": [
        {
            "subject": "rick",
            "predicate": "grandparent",
            "object": "morty",
            "score": 0.98,
            "probability": 0.91,
            "rank": 1,
            "known": False,
            "score_parts": None,
            "proofs": [
                {
                    "score": 0.98,
                    "share": None,
                    "text": "grandparent(rick, morty) ⇐ parent(rick, beth), parent(beth, morty)",
                    "tree": {
                        "goal": {"subject": "rick", "predicate": "grandparent", "object": "morty"},
                        "score": 0.98,
                        "by": "rule",
                        "rule": {
                            "id": "148c568535ff",
                            "text": "grandparent(X,Y) :- parent(X,Z), parent(Z,Y)",
                            "confidence": 0.98,
                        },
                        "bindings": {"X": "rick", "Y": "morty", "Z": "beth"},
                        "unifications": [
                            {"left": "parent", "right": "parent", "score": 0.99, "approximate": False},
                            {"left": "parent", "right": "parent", "score": 0.99, "approximate": False},
                        ],
                        "fact": None,
                        "children": [
                            _LEAF
                            | {
                                "goal": {"subject": "rick", "predicate": "parent", "object": "beth"},
                                "fact": {"subject": "rick", "predicate": "parent", "object": "beth"},
                            },
                            _LEAF
                            | {
                                "goal": {"subject": "beth", "predicate": "parent", "object": "morty"},
                                "fact": {"subject": "beth", "predicate": "parent", "object": "morty"},
                            },
                        ],
                    },
                }
            ],
        }
    ],
}
