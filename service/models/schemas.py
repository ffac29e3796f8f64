"""What goes over the wire about models."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from service.http.pages import Page
from service.http.timestamps import Timestamp

# Short notes of a model, for people and programs.
Tags = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=1024)]], Field(max_length=32)
]


class Lineage(BaseModel):
    """What a version was made from."""

    kb_id: str | None
    kb_name: str | None
    kb_sha256: str
    code_version: str
    seed: int | None
    job_id: str | None
    trained_by: str | None
    imported_from: dict[str, Any] | None


class ModelOut(BaseModel):
    """One version of a model."""

    id: str
    name: str
    version: int
    status: str
    kind: str
    method: str
    explainable: bool = Field(description="Whether its answers have proofs.")
    preset: str | None
    config: dict[str, Any]
    metrics: dict[str, Any]
    tags: dict[str, Any]
    aliases: list[str]
    lineage: Lineage
    created_at: Timestamp
    ready_at: Timestamp | None


class AtomOut(BaseModel):
    """A predicate over two arguments: variables, or entities in quotes."""

    predicate: str
    subject: str
    object: str


class RuleOut(BaseModel):
    """A learnt rule: confidence as the model has it, support and precision counted over the KB."""

    id: str
    head: AtomOut
    body: list[AtomOut]
    text: str
    confidence: float
    template: str
    support: int | None
    precision: float | None
    approximate: bool


class EpochOut(BaseModel):
    """Loss and validation metrics of one epoch."""

    epoch: int
    loss: float
    metrics: dict[str, Any]
    created_at: Timestamp


class CheckpointOut(BaseModel):
    """A saved state of a training."""

    job_id: str
    seed: int | None
    epoch: int
    attempt: int
    num_bytes: int
    metrics: dict[str, Any]
    created_at: Timestamp


class AliasIn(BaseModel):
    """The version that an alias is to mean."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"version": 3}})

    version: int = Field(ge=1, le=2**31 - 1)


class TagsIn(BaseModel):
    """All tags of a version."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"tags": {"stage": "tried"}}})

    tags: Tags


class FactRef(BaseModel):
    """A fact of the KB."""

    subject: str
    predicate: str
    object: str


class GroundingOut(BaseModel):
    """Facts that make the body of a rule true; `known` says whether its head is a fact too."""

    known: bool
    facts: list[FactRef]


class Groundings(Page[GroundingOut]):
    """`truncated` says that the search ran out of time: there may be more."""

    truncated: bool = False


class Difference(BaseModel):
    """A value that the compared versions do not share, in their order."""

    name: str
    values: list[Any]


class SharedRule(BaseModel):
    """A rule with the confidence that each version has in it; null where it is not there."""

    id: str
    text: str
    confidences: list[float | None]


class GroupScores(BaseModel):
    """How often each version is right about the questions of one length or predicate, or about all of them."""

    name: str
    num_questions: int
    right: list[float] = Field(description="Share of the questions whose first answer is the right one.")
    p_values: list[float | None] = Field(description="McNemar's exact test against the first version; null for itself.")


class GivenAnswer(BaseModel):
    """A version's first answer to a question; `proof` is null where it cannot explain itself."""

    answer: str | None
    score: float | None
    right: bool
    proof: str | None


class Disagreement(BaseModel):
    """A question to which not all versions give the same first answer."""

    group: str
    goal: dict[str, str | None]
    facts: list[list[str]]
    expected: str
    answers: list[GivenAnswer]


class Contest(BaseModel):
    """The versions asked the same questions of the test split of their KB, or of the valid split where it has none."""

    split: str
    num_questions: int
    num_available: int = Field(description="Questions of the split that `questions` can ask.")
    num_left_out: int = Field(description="Questions with too many other true answers to be asked.")
    groups: list[GroupScores]
    num_disagreements: int = Field(description="Questions where they differ; `disagreements` says how many are listed.")
    disagreements: list[Disagreement] = Field(description="Those that a version answers rightly come first.")


class Comparison(BaseModel):
    """Versions side by side; every list of values is in the order of `models`. `note`: why there is no contest."""

    models: list["ModelOut"]
    config: list[Difference]
    metrics: list[Difference]
    num_rules: list[int]
    num_shared_rules: int
    rules: list[SharedRule]
    contest: Contest | None = None
    note: str | None = None


EXAMPLE_MODEL: dict[str, Any] = {
    "id": "model_7be844215d1f0c9a",
    "name": "family",
    "version": 1,
    "status": "ready",
    "kind": "facts",
    "method": "proofs",
    "explainable": True,
    "preset": "fast",
    "config": {"method": "proofs", "seed": 0},
    "metrics": {"mrr": 0.97},
    "tags": {},
    "aliases": ["champion"],
    "lineage": {
        "kb_id": "kb_5d1f0c9a7be84421",
        "kb_name": "family",
        "kb_sha256": "0f3a…",
        "code_version": "0.1.0",
        "seed": 0,
        "job_id": "job_0c9a7be844215d1f",
        "trained_by": "job_0c9a7be844215d1f",
        "imported_from": None,
    },
    "created_at": "2026-01-01T12:00:00Z",
    "ready_at": "2026-01-01T12:00:07Z",
}
EXAMPLE_RULE: dict[str, Any] = {
    "id": "148c568535ff",
    "head": {"predicate": "grandparent", "subject": "X", "object": "Y"},
    "body": [
        {"predicate": "parent", "subject": "X", "object": "Z"},
        {"predicate": "parent", "subject": "Z", "object": "Y"},
    ],
    "text": "grandparent(X,Y) :- parent(X,Z), parent(Z,Y)",
    "confidence": 0.98,
    "template": "2",
    "support": 12,
    "precision": 1.0,
    "approximate": False,
}
EXAMPLE_GROUNDING: dict[str, Any] = {
    "known": True,
    "facts": [
        {"subject": "rick", "predicate": "parent", "object": "beth"},
        {"subject": "beth", "predicate": "parent", "object": "morty"},
    ],
}
EXAMPLE_EPOCH: dict[str, Any] = {
    "epoch": 10,
    "loss": 0.41,
    "metrics": {"mrr": 0.93},
    "created_at": "2026-01-01T12:00:03Z",
}
EXAMPLE_CHECKPOINT: dict[str, Any] = {
    "job_id": "job_0c9a7be844215d1f",
    "seed": 0,
    "epoch": 10,
    "attempt": 1,
    "num_bytes": 48_128,
    "metrics": {"mrr": 0.93},
    "created_at": "2026-01-01T12:00:03Z",
}
_OTHER: dict[str, Any] = EXAMPLE_MODEL | {
    "id": "model_844215d1f0c9a7be",
    "name": "embedding",
    "method": "complex",
    "explainable": False,
    "config": {"method": "complex", "seed": 0},
    "metrics": {"mrr": 0.91},
    "aliases": [],
}
EXAMPLE_COMPARISON: dict[str, Any] = {
    "models": [EXAMPLE_MODEL, _OTHER],
    "config": [{"name": "method", "values": ["proofs", "complex"]}],
    "metrics": [{"name": "mrr", "values": [0.97, 0.91]}],
    "num_rules": [12, 0],
    "num_shared_rules": 0,
    "rules": [{"id": EXAMPLE_RULE["id"], "text": EXAMPLE_RULE["text"], "confidences": [0.98, None]}],
    "contest": {
        "split": "test",
        "num_questions": 100,
        "num_available": 240,
        "num_left_out": 0,
        "groups": [{"name": "all", "num_questions": 100, "right": [0.97, 0.88], "p_values": [None, 0.0225]}],
        "num_disagreements": 14,
        "disagreements": [
            {
                "group": "grandparent",
                "goal": {"subject": "rick", "predicate": "grandparent", "object": None},
                "facts": [],
                "expected": "grandparent(rick, morty)",
                "answers": [
                    {
                        "answer": "grandparent(rick, morty)",
                        "score": 0.98,
                        "right": True,
                        "proof": "grandparent(rick, morty) ⇐ parent(rick, beth), parent(beth, morty)",
                    },
                    {"answer": "grandparent(rick, jerry)", "score": 0.61, "right": False, "proof": None},
                ],
            }
        ],
    },
    "note": None,
}
