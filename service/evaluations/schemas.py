"""Requests and answers about evaluations."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.http.timestamps import Timestamp
from service.training.schemas import PROGRESS, WAITING

MAX_LIMIT = 10_000_000
EvaluatedSplit = Literal["test", "valid"]


class EvaluationRequest(BaseModel):
    """Which model to evaluate, and on what."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"model": "family", "split": "test"}})

    model: str = Field(min_length=1, max_length=160, description="`id`, `name`, `name@3` or `name@alias`.")
    split: EvaluatedSplit = Field("test", description="Facts or graphs to ask for: none that the model was trained on.")
    kb: str | None = Field(
        None, min_length=1, max_length=64, description="Id or name of another KB; default: that of the model."
    )
    limit: int | None = Field(
        None, ge=1, le=MAX_LIMIT, description="Ask for a random sample of so many, always the same; default: all."
    )


class GroupOut(BaseModel):
    """The figures of some of the questions."""

    name: str
    num_items: int = Field(description="Facts or graphs; each fact is asked for twice.")
    metrics: dict[str, float]


class BinOut(BaseModel):
    """Answers whose probabilities lie between two tenths."""

    low: float
    high: float
    answers: float
    score: float = Field(description="Their mean probability.")
    true: float = Field(description="The share of them that is true.")


class CalibrationOut(BaseModel):
    """How far probabilities are from the share of answers that is true."""

    ece: float = Field(description="Expected calibration error: the mean distance, weighted by answers.")
    bins: list[BinOut]


class EvaluationRow(BaseModel):
    """An evaluation as lists show it."""

    id: str
    status: str
    model_id: str
    model: str = Field(description="Name and version of the model, as `name@3`.")
    kb_id: str
    kb: str | None = Field(description="Name of the KB; null once it is deleted.")
    split: str
    limit: int | None
    metrics: dict[str, float] = Field(description="`mrr` and `hits@k`, or `accuracy` of graphs; empty until it ends.")
    attempt: int
    progress: dict[str, Any] = PROGRESS
    waiting_for: str | None = WAITING
    error: dict[str, Any] | None
    created_at: Timestamp
    started_at: Timestamp | None
    finished_at: Timestamp | None


class EvaluationOut(EvaluationRow):
    """An evaluation with all its figures; they are empty until it has succeeded."""

    num_items: int | None = Field(None, description="Facts or graphs that were asked for.")
    num_available: int | None = Field(None, description="Facts or graphs of the split.")
    num_left_out: int | None = Field(None, description="Facts of predicates that the model does not know.")
    by_predicate: list[GroupOut] = Field(
        default_factory=list, description="Most frequent first, at most 1000; of graphs, by label."
    )
    by_direction: list[GroupOut] = Field(
        default_factory=list, description="By the place that was asked for: object or subject. Facts only."
    )
    by_length: list[GroupOut] = Field(default_factory=list, description="By number of facts. Graphs only.")
    unseen: GroupOut | None = Field(
        None, description="The questions about entities (of graphs: predicates) that training never saw."
    )
    calibration: CalibrationOut | None = Field(None, description="null for a model that was never calibrated.")


EXAMPLE_ROW: dict[str, Any] = {
    "id": "job_9a7be844215d1f0c",
    "status": "succeeded",
    "model_id": "model_7be844215d1f0c9a",
    "model": "umls@1",
    "kb_id": "kb_5d1f0c9a7be84421",
    "kb": "umls",
    "split": "test",
    "limit": None,
    "metrics": {"mrr": 0.93, "hits@1": 0.89, "hits@3": 0.96, "hits@10": 0.99},
    "attempt": 1,
    "progress": {"phase": "done", "text": "done", "done": 1.0, "eta_seconds": 0.0},
    "waiting_for": None,
    "error": None,
    "created_at": "2026-01-01T12:00:00Z",
    "started_at": "2026-01-01T12:00:01Z",
    "finished_at": "2026-01-01T12:00:03Z",
}
_GROUP: dict[str, Any] = {"name": "affects", "num_items": 104, "metrics": EXAMPLE_ROW["metrics"]}
EXAMPLE_EVALUATION: dict[str, Any] = EXAMPLE_ROW | {
    "num_items": 661,
    "num_available": 661,
    "num_left_out": 0,
    "by_predicate": [_GROUP],
    "by_direction": [_GROUP | {"name": "object", "num_items": 661}, _GROUP | {"name": "subject", "num_items": 661}],
    "by_length": [],
    "unseen": {"name": "unseen entities", "num_items": 0, "metrics": {}},
    "calibration": {"ece": 0.02, "bins": [{"low": 0.9, "high": 1.0, "answers": 310.0, "score": 0.97, "true": 0.95}]},
}
