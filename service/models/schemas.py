"""Requests and answers about models."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ctp_core.presets import DEFAULT_PRESET
from service.http.pages import Page
from service.http.timestamps import Timestamp

# Short notes on a model, by key: at most 32.
Tags = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=1024)]], Field(max_length=32)
]


class Lineage(BaseModel):
    """The origin of a version: its KB, code, seed and job, or the model that it was imported from."""

    kb_id: str | None
    kb_name: str | None
    kb_sha256: str
    code_version: str
    seed: int | None
    job_id: str | None
    trained_by: str | None
    imported_from: dict[str, Any] | None


class Warmed(BaseModel):
    """A model that is in the memory of a query worker now."""

    model_id: str
    elapsed_ms: float


class TrialOut(BaseModel):
    """Settings that were tried on the KB before training."""

    settings: dict[str, Any]
    metric: str = Field(description="Metric on held-out facts by which the settings were compared.")
    value: float
    cpu_seconds: float = Field(description="Cost of the trial in seconds of one core, forecast from its work.")
    chosen: bool = Field(description="Whether the model was then trained with these settings.")


class CardFigures(BaseModel):
    """The metrics of an evaluation of a model, and what they are of."""

    id: str = Field(description="`GET /evaluations/{id}` tells all of it.")
    split: str
    kb_id: str
    limit: int | None = Field(description="Size of the sample; null if all was asked for.")
    metrics: dict[str, float]


class ModelOut(BaseModel):
    """One version of a model."""

    id: str
    name: str
    version: int
    status: str
    kind: str
    method: str
    explainable: bool = Field(description="Whether answers come with proofs.")
    preset: str | None
    config: dict[str, Any]
    metrics: dict[str, Any] = Field(description="Figures of its training, on validation data.")
    evaluations: list[CardFigures] = Field(
        default_factory=list, description="The newest evaluation on each split of each KB, newest first."
    )
    trials: list[TrialOut] = Field(
        default_factory=list, description="What was tried to find the settings; empty where all of them were given."
    )
    holdout: dict[str, float] | None = Field(
        None, description="Shares of the KB's training data that this training held out; null: none."
    )
    tags: dict[str, Any]
    aliases: list[str]
    lineage: Lineage
    created_at: Timestamp
    ready_at: Timestamp | None


class AtomOut(BaseModel):
    """A predicate with two arguments, each a variable or an entity in quotes."""

    predicate: str
    subject: str
    object: str


class RuleOut(BaseModel):
    """A learnt rule: what was counted over the KB, and what the model makes of it."""

    id: str
    head: AtomOut
    body: list[AtomOut]
    text: str
    confidence: float = Field(
        description="Chance that what the rule concludes is true: support ÷ (pairs that its body connects + 5)."
    )
    weight: float | None = Field(
        description="What one proof by this rule adds to the logit of a score, in models that add evidence; the score "
        "of such a proof in others. null for rules of earlier versions."
    )
    template: str
    support: int | None = Field(description="Pairs that the body connects and of which the head is a training fact.")
    precision: float | None = Field(description="Support ÷ pairs that the body connects.")
    approximate: bool
    prior: bool = Field(
        description="The body is about X or Y alone: it says how common that one is, and proves nothing."
    )


class EpochOut(BaseModel):
    """The loss and the validation metrics of one epoch; no loss where epochs have none to compare."""

    epoch: int
    loss: float | None
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
    """The version that an alias shall point to."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"version": 3}})

    version: int = Field(ge=1, le=2**31 - 1)


class TagsIn(BaseModel):
    """The new tags of a version, which replace all its tags."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"tags": {"stage": "tried"}}})

    tags: Tags


class FactRef(BaseModel):
    """A fact of the KB."""

    subject: str
    predicate: str
    object: str


class GroundingOut(BaseModel):
    """Facts that make the body of a rule true; `known` says whether the head is a known fact too."""

    known: bool
    facts: list[FactRef]


class Groundings(Page[GroundingOut]):
    """A page of groundings; `truncated` says that the search ran out of time, so there may be more."""

    truncated: bool = False


class Difference(BaseModel):
    """A setting or metric of the compared versions, in their order; null for a version without it."""

    name: str
    values: list[Any]


class SharedRule(BaseModel):
    """A rule with its confidence in each version; null for a version without the rule."""

    id: str
    text: str
    confidences: list[float | None]


class GroupScores(BaseModel):
    """How often each version is right, over the questions of one length or predicate, or over all."""

    name: str
    num_questions: int
    right: list[float] = Field(description="Share of questions whose first answer is right, by version.")
    p_values: list[float | None] = Field(description="McNemar's exact test against the first version; null for itself.")


class GivenAnswer(BaseModel):
    """A version's first answer to a question; `proof` is null if it has none."""

    answer: str | None
    score: float | None
    right: bool
    proof: str | None


class Disagreement(BaseModel):
    """A question to which the versions give different first answers."""

    group: str
    goal: dict[str, str | None]
    facts: list[list[str]]
    expected: str
    answers: list[GivenAnswer]


class Contest(BaseModel):
    """Answers of the versions to the same questions, from the test split of their KB, or else its valid split."""

    split: str
    num_questions: int = Field(description="Questions that every version was asked.")
    truncated: bool = Field(False, description="Whether it ended before everything was asked: `note` says why.")
    num_available: int = Field(description="Questions that the split offers: the most that `questions` can ask.")
    num_left_out: int = Field(description="Questions that are not asked because they have too many other true answers.")
    groups: list[GroupScores]
    num_disagreements: int = Field(
        description="Questions with differing answers; the parameter `disagreements` limits the list."
    )
    disagreements: list[Disagreement] = Field(description="Questions that some version answers correctly come first.")


class Comparison(BaseModel):
    """Compared versions; lists of values follow the order of `models`. `note` says why a contest is missing or cut."""

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
    "preset": DEFAULT_PRESET,
    "config": {"method": "proofs", "seed": 0},
    "metrics": {"mrr": 0.97},
    "trials": [{"settings": {"rank": 64}, "metric": "mrr", "value": 0.95, "cpu_seconds": 2.5, "chosen": True}],
    "tags": {},
    "aliases": ["champion"],
    "lineage": {
        "kb_id": "kb_5d1f0c9a7be84421",
        "kb_name": "family",
        "kb_sha256": "0f3a…",
        "code_version": "0.2.0",
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
    "confidence": 0.71,
    "weight": 3.1,
    "template": "2",
    "support": 12,
    "precision": 1.0,
    "approximate": False,
    "prior": False,
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
        "truncated": False,
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
