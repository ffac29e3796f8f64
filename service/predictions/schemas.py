"""Requests and answers about predictions in bulk."""

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from service.http.timestamps import Timestamp
from service.settings import NAME_LIMIT
from service.training.schemas import PROGRESS, WAITING

MAX_NAMES = 10_000
MAX_TOP_K = 1000


class Format(NamedTuple):
    """How the rows are sent."""

    media_type: str
    suffix: str


FORMATS = {
    "parquet": Format("application/vnd.apache.parquet", "parquet"),
    "csv": Format("text/csv; charset=utf-8", "csv"),
    "jsonl": Format("application/jsonl", "jsonl"),
}
FormatName = Literal["parquet", "csv", "jsonl"]
Name = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT)]
Names = Annotated[list[Name], Field(min_length=1, max_length=MAX_NAMES)]


class PredictionRequest(BaseModel):
    """What to predict, and how the rows are written."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"model": "family", "predicate": "grandparent", "proofs": 1}}
    )

    model: str = Field(min_length=1, max_length=160, description="`id`, `name`, `name@3` or `name@alias`.")
    kb: str | None = Field(
        None, min_length=1, max_length=64, description="Id or name of another KB; default: that of the model."
    )
    predicate: Name = Field(description="Predicate of the facts to predict.")
    subjects: Names | None = Field(
        None,
        description="Ask (s, p, ?) for these; default: for every entity that may be a subject of the predicate, since "
        "it is one of a stated fact or of their kind. With `objects` as well, each pair is a question.",
    )
    objects: Names | None = Field(None, description="Ask (?, p, o) for these.")
    min_score: float = Field(0.5, ge=0, le=1, description="Keep rows with at least this score.")
    top_k_per_question: int = Field(10, ge=1, le=MAX_TOP_K, description="Keep so many answers to a question.")
    proofs: Literal[0, 1] = Field(0, description="1: with the best proof of each row.")
    exclude_known: bool = Field(True, description="Leave out facts of the KB.")
    format: FormatName = Field("parquet", description="How the rows are written.")


class PredictionRow(BaseModel):
    """A prediction as lists show it."""

    id: str
    status: str
    model_id: str
    model: str = Field(description="Name and version of the model, as `name@3`.")
    kb_id: str
    kb: str | None = Field(description="Name of the KB; null once it is deleted.")
    predicate: str
    num_subjects: int | None = Field(
        description="Subjects that were listed; null: all that may be subjects of the predicate."
    )
    num_objects: int | None = Field(description="Objects that were listed; null: none.")
    min_score: float
    top_k_per_question: int
    proofs: int
    exclude_known: bool
    format: str
    num_questions: int | None = Field(None, description="Questions that were asked; null until it ends.")
    num_rows: int | None = Field(None, description="Rows that were found; null until it ends.")
    num_bytes: int | None = Field(description="Bytes to download; null if there is nothing to download.")
    truncated: bool | None = Field(
        None, description="Whether it ended before all questions were asked; null until it ends."
    )
    stopped_by: str | None = Field(None, description="The setting that ended it, if it is truncated.")
    expires_at: Timestamp | None = Field(description="When its rows are removed (CTP_RESULT_DAYS).")
    attempt: int
    progress: dict[str, Any] = PROGRESS
    waiting_for: str | None = WAITING
    error: dict[str, Any] | None
    created_at: Timestamp
    started_at: Timestamp | None
    finished_at: Timestamp | None


class PredictionOut(PredictionRow):
    """A prediction with the names that it was asked about."""

    subjects: list[str] | None
    objects: list[str] | None


EXAMPLE_ROW: dict[str, Any] = {
    "id": "job_9a7be844215d1f0c",
    "status": "succeeded",
    "model_id": "model_7be844215d1f0c9a",
    "model": "family@1",
    "kb_id": "kb_5d1f0c9a7be84421",
    "kb": "family",
    "predicate": "grandparent",
    "num_subjects": None,
    "num_objects": None,
    "min_score": 0.5,
    "top_k_per_question": 10,
    "proofs": 1,
    "exclude_known": True,
    "format": "parquet",
    "num_questions": 12,
    "num_rows": 7,
    "num_bytes": 2214,
    "truncated": False,
    "stopped_by": None,
    "expires_at": "2026-01-08T12:00:03Z",
    "attempt": 1,
    "progress": {"phase": "done", "text": "done", "done": 1.0, "eta_seconds": 0.0},
    "waiting_for": None,
    "error": None,
    "created_at": "2026-01-01T12:00:00Z",
    "started_at": "2026-01-01T12:00:01Z",
    "finished_at": "2026-01-01T12:00:03Z",
}
EXAMPLE_PREDICTION: dict[str, Any] = EXAMPLE_ROW | {"subjects": None, "objects": None}
EXAMPLE_NEW: dict[str, Any] = EXAMPLE_PREDICTION | {
    "status": "queued",
    "attempt": 0,
    "progress": {},
    "num_questions": None,
    "num_rows": None,
    "num_bytes": None,
    "truncated": None,
    "expires_at": None,
    "started_at": None,
    "finished_at": None,
}
EXAMPLE_CSV = (
    "subject,predicate,object,score,probability,rank,known,asked\r\nrick,grandparent,morty,0.98,0.98,1,false,object\r\n"
)
EXAMPLE_LINES = (
    '{"subject":"rick","predicate":"grandparent","object":"morty","score":0.98,"probability":0.98,"rank":1,'
    '"known":false,"asked":"object"}\n'
)
